"""The table of docs/fine_tuning.md: which models of KerasHub are verified, and their clipped sums.

python -m tests.hub_models.table            # prints it
python -m tests.hub_models.table --write    # puts it into the page
"""

import argparse
import warnings
from pathlib import Path

import tensorflow as tf
from tensorflow import keras

from tests.gradients.looped_reference import looped_sum, relative_error
from tests.hub_models.cases import CASES, model_of, rows_of
from tfdpnorm.gradients import book_keeping
from tfdpnorm.independence import prove_training

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fine_tuning.md"
BEGIN, END = "<!-- begin: made by tests/hub_models/table.py -->", "<!-- end -->"
ROWS, CLIP = 3, 0.1


def outcome(name):
    """The tuple (verification, one gradient per row for, error of the clipped sum) of a case."""
    model = model_of(name)
    x = rows_of(model, ROWS)
    specs = [tf.TensorSpec(t.shape, t.dtype) for t in x]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            proof = prove_training(model, "mse", specs, tf.TensorSpec([ROWS, 2]))
        except ValueError as error:
            return f"no: {str(error).split('. ')[0]}", "", ""
    slow = {
        str(w.message).split(" for ")[1].split()[0]
        for w in caught
        if "no gradient rule" in str(w.message)
    }
    if not proof.holds:
        return f"no: {proof.obstacle}", "", ""
    return "yes", ", ".join(sorted(slow)), f"{error_of_sum(model, x, proof.broadcast_layers):.0e}"


def error_of_sum(model, x, broadcast):
    """The relative error of book-keeping's clipped sum against a loop over the rows."""
    variables = model.trainable_variables
    rows = x, tf.ones([ROWS, 2]), tf.ones([ROWS]), tf.ones([ROWS])

    def loss_fn(x, y, weight):
        outputs = model(x, training=False)
        return tf.reduce_sum(tf.square(outputs - y), 1) * weight, outputs

    clipped = tf.function(
        lambda *rows: book_keeping(
            model, loss_fn, rows, variables, CLIP, broadcast=broadcast, unreached=[]
        )
    )
    found = [g.numpy() for g in clipped(*rows).gradients]
    return relative_error(found, looped_sum(loss_fn, rows, variables, CLIP))


def table():
    """The markdown of the table; it takes minutes."""
    lines = [
        "| model | verified for `book_keeping` | one gradient per row for | sum against the loop |",
        "|---|---|---|---|",
    ]
    for name in CASES:
        keras.backend.clear_session()
        lines.append(f"| {name} | {' | '.join(outcome(name))} |")
    return "\n".join(lines) + "\n"


def written():
    """What stands on the page, as `table` gives it."""
    return PAGE.read_text("utf-8").partition(BEGIN + "\n")[2].partition(END)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    made = table()
    if not parser.parse_args().write:
        print(made)
        return
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{made}{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
