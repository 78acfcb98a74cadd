"""The architectures of keras.applications, as the table of docs/import.md has them."""

import pytest

from tests.convert.architectures import (
    ARCHITECTURES,
    BY_NAME,
    HEADER,
    outcome_of,
    rows_of,
    written,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["MobileNet", "MobileNetV3Small", "MobileNetV3Large", "EfficientNetV2B0"]
)
def test_all_the_way(name, tmp_path):
    """One architecture for each of what batch normalisation can become."""
    architecture = BY_NAME[name]
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
