"""The architectures of keras.applications, as the table of docs/import.md has them."""

import pytest

from tests.convert.architectures import ARCHITECTURES, HEADER, outcome_of, rows_of, written

ONLY_KERAS_2 = ("RegNetX002", "RegNetY002", "ResNetRS50")


def _case(architecture):
    gone = architecture.name in ONLY_KERAS_2
    marks = [pytest.mark.keras_2_only("there is no such network")] if gone else []
    return pytest.param(architecture, marks=marks, id=architecture.name)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", map(_case, ARCHITECTURES))
def test_all_the_way(architecture, tmp_path):
    outcome = outcome_of(architecture, tmp_path)
    assert outcome.sum_error < 1e-8
    if architecture.batch_norm in ("public_batch", "frozen"):
        assert outcome.change < 1e-4


def test_the_page_has_all_architectures_and_no_failure():
    assert HEADER.splitlines()[0] in written()
    rows = rows_of(written())
    rows.pop("architecture")
    assert set(rows) <= {a.name for a in ARCHITECTURES}
    assert not any("**" in row for row in rows.values())
