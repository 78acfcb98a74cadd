"""Milliseconds and memory of one training step, by model, batch size and gradient engine.

    python -m benchmarks.step_time --models=lenet5,resnet9 --batch_sizes=64,256 \\
        --engines=keras,book_keeping --output=step_time.json

Every engine has a process of its own. They take turns within one run, so that a drift of the
machine's speed affects all of them alike. Writes a JSON list of rows and a PNG next to it;
benchmarks/README.md says what the columns mean.
"""

import json
import pathlib
import shutil
import sys

from absl import app, flags

from benchmarks import report, turns
from benchmarks.devices import CPU, GPU
from benchmarks.engines import ENGINES
from benchmarks.workloads import WORKLOADS

FLAGS = flags.FLAGS


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_list("models", ["lenet5"], f"Of {', '.join(WORKLOADS)}; or all.")
    flags.DEFINE_list("batch_sizes", ["256"], "Rows of a step.")
    flags.DEFINE_list("engines", ["keras", "book_keeping"], f"Of {', '.join(ENGINES)}; or all.")
    flags.DEFINE_integer("rounds", 10, "Turns of each engine.")
    flags.DEFINE_enum(
        "device", CPU, [CPU, GPU], "What to measure: the processor, or the first GPU, by the clock."
    )
    flags.DEFINE_bool("mixed_precision", False, "Have layers compute in half precision.")
    flags.DEFINE_float(
        "timeout",
        120.0,
        "Seconds that an engine may take for its first step, and for all of its turns.",
    )
    flags.DEFINE_float("memory_limit", 8_000.0, "Megabytes that the process of an engine may hold.")
    flags.DEFINE_bool(
        "interleave_batch_sizes",
        False,
        "Let all batch sizes of a model take turns too, which holds all of them in memory.",
    )
    flags.DEFINE_string(
        "peer_python",
        sys.executable,
        "Interpreter with PyTorch and Opacus, or JAX, for the engines that need them.",
    )
    flags.DEFINE_string("output", None, "JSON file to write; a PNG is written next to it.")
    flags.DEFINE_bool(
        "add",
        False,
        "Keep the rows that --output holds, except those measured again: one record of several "
        "runs. Ratios still compare rows of one run.",
    )


def main():
    """Measures what the flags ask for."""
    models = chosen("models", FLAGS.models, WORKLOADS)
    engines = chosen("engines", FLAGS.engines, ENGINES)
    sizes = _sizes(FLAGS.batch_sizes)
    on = _on(engines)
    for name in ("rounds", "timeout", "memory_limit"):
        if not FLAGS[name].value > 0:
            raise ValueError(f"Expected --{name} above 0, got {FLAGS[name].value}.")
    if shutil.which(FLAGS.peer_python) is None:
        raise ValueError(
            f"Expected --peer_python to be an interpreter, got {FLAGS.peer_python!r}. Give its "
            "path, such as /path/to/venv/bin/python."
        )
    path = None
    if FLAGS.output is not None:
        path = pathlib.Path(FLAGS.output)
        if path.suffix != ".json":
            raise ValueError(f"Expected --output to end in .json, got {FLAGS.output!r}.")
        path.parent.mkdir(parents=True, exist_ok=True)
    kept = _rows_of(path) if FLAGS.add else []
    limits = turns.Limits(seconds=FLAGS.timeout, megabytes=FLAGS.memory_limit)
    rows = []
    for model in models:
        for together in [sizes] if FLAGS.interleave_batch_sizes else [[s] for s in sizes]:
            rows += turns.measure(
                model,
                together,
                engines,
                rounds=FLAGS.rounds,
                limits=limits,
                peer_python=FLAGS.peer_python,
                on=on,
                report=lambda text: print(text, file=sys.stderr, flush=True),
            )
            if path is not None:  # each time: a long run that is cut short keeps what it has
                path.write_text(json.dumps(_joined(kept, rows), indent=1) + "\n")
    print(report.table(rows))
    if path is not None:
        report.plot(_joined(kept, rows), path.with_suffix(".png"))
        print(f"Record: {path}, {path.with_suffix('.png')}")


def _on(engines):
    """The `turns.On` that the flags ask for, of these engines."""
    on = turns.On(FLAGS.device, FLAGS.mixed_precision)
    others = [name for name in engines if not ENGINES[name].replaces_norm]
    if on != turns.On() and others:
        raise ValueError(
            "Expected engines of Keras and of this library with --device=gpu and "
            f"--mixed_precision, got {', '.join(others)}. Measure these by themselves."
        )
    if on.device == GPU:
        turns.check_device(GPU)
    return on


def _rows_of(path):
    """The rows of a record that is to be added to; none if there is none yet."""
    if path is None:
        raise ValueError("Expected --output with --add, got none. Name the record to add to.")
    if not path.exists():
        return []
    try:
        rows = json.loads(path.read_text())
        [_key(row) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"Expected {path} to be a record of this program, got {error!r}. Name another one."
        ) from error
    return rows


def _joined(kept, rows):
    anew = {_key(row) for row in rows}
    return [row for row in kept if _key(row) not in anew] + rows


def _key(row):
    on = row.get("device") or "CPU", bool(row.get("half"))  # which older records do not have
    return row["model"], row["batch_size"], row["engine"], on


def chosen(flag, names, known):
    """The names asked for, without repetition."""
    if names == ["all"]:
        return list(known)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(
            f"Expected --{flag} to be of {', '.join(known)}, got {', '.join(unknown) or 'none'}."
        )
    return list(dict.fromkeys(names))


def _sizes(texts):
    """The batch sizes asked for, in order and without repetition."""
    for text in texts:
        if not (text.isascii() and text.isdigit() and int(text) > 0):
            raise ValueError(f"Expected --batch_sizes of whole numbers above 0, got {text!r}.")
    if not texts:
        raise ValueError("Expected --batch_sizes of whole numbers above 0, got none.")
    return sorted({int(text) for text in texts})


def run_app(main=main):
    """Runs a program with parsed flags; a mistake of the user ends in one line, not a traceback."""

    def guarded(argv):
        try:
            if len(argv) > 1:
                raise ValueError(f"Expected --flag=value only, got {argv[1:]}. See --help.")
            main()
        except (ValueError, OSError) as error:
            print(f"Error: {error}", file=sys.stderr)
            sys.exit(2)

    app.run(guarded)


if __name__ == "__main__":
    define_flags()
    run_app()
