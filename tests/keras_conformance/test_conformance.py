"""Without clip and noise a private model trains and reports as plain Keras does, or is rejected."""

import re

import pytest
from tensorflow import keras

from tests.keras_conformance.cases import CASES
from tests.keras_conformance.compare import EQUAL, outcome_of
from tests.keras_conformance.metrics import METRICS, NOT_IN_KERAS, NOT_OF_TARGETS, metric_outcome
from tests.keras_conformance.table import ABSENT, COLUMN, lists, rows_of, written

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.quick_cases("variational autoencoder, add_loss of a mean", "ReduceLROnPlateau on loss")
@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.name, marks=[] if c.quick else pytest.mark.slow) for c in CASES],
)
def test_a_private_model_is_as_plain_keras_or_rejected(case, tmp_path):
    if case.differs is not None:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            outcome_of(case, tmp_path)
        return
    found = outcome_of(case, tmp_path)
    if case.refused is None:
        assert found == (case.engine, None, None)
        return
    assert found.refusal is not None
    assert re.search(case.refused, found.refusal)
    # One line, or one for each fault that was found, each with its remedy.
    assert all(re.match(r"[A-Z].*[.:] [A-Z].*", line) for line in found.refusal.splitlines())


def test_the_cases_have_names_of_their_own():
    names = [case.name for case in CASES] + [name for name, _, _ in METRICS]
    assert len(set(names)) == len(names)


@pytest.mark.slow_cases(
    "*-weighted",
    *(f"{name}-plain" for name, _, _ in METRICS if name != "F1Score"),
)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("name", "make", "kind"), METRICS, ids=[m[0] for m in METRICS])
def test_metrics(name, make, kind, weighted):
    assert metric_outcome(make, kind, weighted) in [EQUAL, *([NOT_IN_KERAS] if weighted else [])]


def test_every_metric_of_keras_is_in_the_table():
    known = {name for name in dir(keras.metrics) if name[0].isupper() and name != "KLD"}
    classes = {n for n in known if isinstance(getattr(keras.metrics, n), type)}
    assert classes == {name for name, _, _ in METRICS} | NOT_OF_TARGETS


@pytest.mark.slow
def test_the_lists_on_the_page_are_those_that_are_made():
    assert written() == lists(), "run: python -m tests.keras_conformance.table --write"


def test_the_page_has_every_case_and_no_other():
    page = {name: row[COLUMN] for rows in rows_of(written()).values() for name, row in rows.items()}
    names = [*(case.name for case in CASES), *(name for name, _, _ in METRICS)]
    assert sorted(name for name, cell in page.items() if cell != ABSENT) == sorted(names)
    for case in CASES:
        assert ("rejected in" in page[case.name]) == (case.refused is not None)
        assert ("differs" in page[case.name]) == (case.differs is not None)
    assert "not equal" not in written()
