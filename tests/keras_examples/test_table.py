"""The page that says what is proved says what the proofs say."""

import pytest

from tests.keras_examples.table import GROUPS, lists, written


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:There is no gradient rule")
def test_the_lists_on_the_page_are_those_that_are_made():
    assert written() == lists(), "run: python -m tests.keras_examples.table --write"


def test_every_model_is_on_the_page():
    rows = [line.split("|")[1].strip() for line in written().splitlines() if line.startswith("| ")]
    names = [name.replace("_", " ") for cases in GROUPS.values() for name in cases]
    assert [row for row in rows if row != "model"] == names
