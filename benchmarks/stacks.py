"""The private step of one stack beside that of the other: a table from rows of `step_time`.

    python -m benchmarks.stacks benchmarks/stacks.json

Measures nothing. The file joins what `benchmarks.step_time --engines=keras,book_keeping` wrote
under Python 3.11 and 3.12, in runs that took turns.
"""

import json
import pathlib
import statistics
import sys

_NAMES = ("2.15", "2.21")  # of TensorFlow


def text_of(rows):
    """Returns the table, in Markdown; where a stack has several runs, their mean."""
    lines = [
        "| model | batch | ms, Keras 2.15 | ms, Keras 3 | ratio | plain Keras |",
        "|---|---|---|---|---|---|",
    ]
    for model, size in dict.fromkeys((row["model"], row["batch_size"]) for row in rows):
        first, second = (_milliseconds(rows, model, size, "book_keeping", n) for n in _NAMES)
        plain = [_milliseconds(rows, model, size, "keras", name) for name in _NAMES]
        lines.append(
            f"| {model} | {size} | {first:.1f} | {second:.1f} | {second / first:.2f} "
            f"| {plain[1] / plain[0]:.2f} |"
        )
    return "\n".join(lines)


def _milliseconds(rows, model, size, engine, tensorflow):
    wanted = (model, size, engine)
    return statistics.mean(
        row["milliseconds"]
        for row in rows
        if (row["model"], row["batch_size"], row["engine"]) == wanted
        and row["versions"]["tensorflow"].startswith(tensorflow)
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("Expected a JSON file: python -m benchmarks.stacks benchmarks/stacks.json")
    print(text_of(json.loads(pathlib.Path(sys.argv[1]).read_text("utf-8"))))
