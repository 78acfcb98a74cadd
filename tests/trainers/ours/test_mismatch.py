"""The study of public rows that differ from the private ones."""

import dataclasses

import numpy as np
import pytest

from trainers.ours import mismatch
from trainers.ours.mismatch import mismatch_record
from trainers.ours.mismatch_report import mismatch_text
from trainers.records.fields import SENSITIVITY_FIELDS


@pytest.fixture
def altered(monkeypatch):
    from tfdpnorm.data import Examples

    rng = np.random.default_rng(0)

    def load(name, split, data_dir=None):
        x = rng.random((600, 8, 8, 1), np.float32)
        return Examples(name, split, x, np.zeros(600, np.int32), 1, True)

    monkeypatch.setattr(mismatch, "load_examples", load)
    own = rng.random((2048, 6, 6, 1), np.float32)
    return own, mismatch.altered_rows(own, seed=1)


def test_each_way_of_altering_rows(altered):
    own, made = altered
    first = own[:512]
    np.testing.assert_array_equal(made["own"], first)
    assert len(made["own (16 rows)"]) == 16 and len(made["own (2048 rows)"]) == 2048
    np.testing.assert_allclose(made["own + 0.25"] - first, 0.25, atol=1e-6)
    # Another image's pixel: the same numbers at each place, and nothing else in common.
    mixed = made["own (each pixel of another image)"]
    np.testing.assert_array_equal(np.sort(mixed, axis=0), np.sort(first, axis=0))
    assert not np.array_equal(mixed, first)
    moved = made["own (pixels in another order)"].reshape(512, -1)
    assert not np.array_equal(moved, first.reshape(512, -1))
    np.testing.assert_array_equal(np.sort(moved), np.sort(first.reshape(512, -1)))
    shaped = made["ink (moments of own)"]
    np.testing.assert_allclose([shaped.mean(), shaped.std()], [own.mean(), own.std()], rtol=1e-4)
    assert np.corrcoef(shaped.ravel(), made["ink"].ravel())[0, 1] > 0.999
    assert all(rows.shape[1:] == (6, 6, 1) and len(rows) >= 16 for rows in made.values())


@pytest.mark.slow
def test_a_record_and_its_table(tiny_spec, tiny_data):
    spec = dataclasses.replace(
        tiny_spec(norm="public_batch", epsilon=8.0), experiment="method_mismatch"
    )
    own = np.random.default_rng(1).random((400, 12, 12, 1), np.float32)
    rows = {"own": own, "own x 3": 3 * own}
    record = mismatch_record(spec, tiny_data, rows, measured_at=(0, 2), echo=lambda line: None)
    assert set(record) == set(SENSITIVITY_FIELDS)
    first, scaled = record["rows"]
    assert sorted({found["update"] for found in first["moments"]}) == [0, 2, 3]
    of_input = [row["moments"][0] for row in (first, scaled)]
    assert of_input[1]["scale"] < 0.8 * of_input[0]["scale"]
    text = mismatch_text([record])
    assert "Made from 1 records" in text and "| own x 3 | 400 |" in text
