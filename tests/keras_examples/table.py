"""The lists in docs/per_example_independence.md: which models and layers are verified.

python -m tests.keras_examples.table            # prints them
python -m tests.keras_examples.table --write    # puts them into the page
"""

import argparse
import warnings
from pathlib import Path

from tensorflow import keras

from tests.independence.verification import test_layers as stock
from tests.keras_examples.examples import EXAMPLES
from tests.keras_examples.images import IMAGES
from tests.keras_examples.others import OTHERS
from tests.keras_examples.positions import EACH_EXAMPLE, NO_EXAMPLE
from tests.keras_examples.sequences import SEQUENCES
from tests.keras_examples.test_brought_models import REFUSED
from tfdpnorm.independence import prove_training

PAGE = Path(__file__).resolve().parents[2] / "docs" / "per_example_independence.md"
BEGIN, END = "<!-- begin: made by tests/keras_examples/table.py -->", "<!-- end -->"
GROUPS = {
    "Keras' own examples": EXAMPLES,
    "Networks for images": IMAGES,
    "Networks for sequences": SEQUENCES,
    "Networks for tables, sets and graphs": OTHERS,
    "Positions, class tokens and queries": {**EACH_EXAMPLE, **NO_EXAMPLE},
    "Not verified": {name: case for name, (case, _) in REFUSED.items()},
}


def lists():
    """The markdown of all lists, a str. It verifies every model, which takes minutes."""
    found = []
    for title, cases in GROUPS.items():
        found += ["", f"**{title}**", "", "| model | verification |", "|---|---|"]
        found += [
            f"| {name.replace('_', ' ')} | {_verdict(case)} |" for name, case in cases.items()
        ]
    proved = sorted({kind for name in stock.CASES for kind in _proved_layer(name)})
    found += [
        "",
        "**Stock layers**, each verified between two trained ones",
        "",
        ", ".join(proved),
        "",
    ]
    return "\n".join(found)


def written():
    """What stands on the page, as `lists` gives it."""
    return PAGE.read_text("utf-8").partition(BEGIN + "\n")[2].partition(END)[0].rstrip("\n") + "\n"


def _verdict(case):
    keras.backend.clear_session()
    try:
        proof = prove_training(case.build(), case.whole_loss, case.x, case.y)
    except ValueError as error:
        return f"rejected by the engine: {str(error).partition(', got')[0]}"
    if proof.holds:
        return "verified"
    first = proof.failed[0] if proof.failed else None
    if first is not None and (first.reads_no_example or proof.culprit is None):
        return f"not verified: {first}"
    return f"not verified: `{proof.culprit.op_type}` {proof.culprit.why}"


def _proved_layer(name):
    """The types of the layers in a case of stock layers, if it is verified."""
    keras.backend.clear_session()
    make, shape = stock.CASES[name]
    layer = make()
    behind = [keras.layers.Flatten(), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input(shape), keras.layers.Dense(4), layer, *behind])
    if not stock.proof_of(model, stock.spec(*shape)).holds:
        return []
    kinds = layer.layers if isinstance(layer, keras.Sequential) else [layer]
    return [type(x).__name__ + ("" if x.trainable else " (frozen)") for x in kinds]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the lists into the page")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "There is no gradient rule")
    made = lists()
    if not arguments.write:
        print(made)
        return
    text = PAGE.read_text("utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{made}{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
