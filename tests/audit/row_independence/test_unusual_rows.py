"""What rows the probe makes of others, and which sizes of a batch it runs."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.audit.row_independence.sound_models import FEATURES, sequential
from tfdpnorm import audit
from tfdpnorm.audit.row_independence import unusual_rows
from tfdpnorm.audit.row_independence.rows import made_up_rows

layers = keras.layers
pytestmark = pytest.mark.usefixtures("nothing_unchecked")
ROWS = {
    "ids": np.arange(1, 13).reshape(4, 3),
    "floats": np.arange(1.0, 13.0).reshape(4, 3),
    "words": np.array([list("abc")] * 4, object),
}
MASK = np.array([True, False, True, False])


def test_copies_are_of_rows_inside():
    found = unusual_rows.copies(MASK, ROWS)
    for name in ROWS:
        np.testing.assert_array_equal(found[name], ROWS[name][[0, 0, 2, 2]])


def test_copies_of_ids_leave_floats_alone():
    found = unusual_rows.copies(MASK, ROWS, ids_only=True)
    np.testing.assert_array_equal(found["ids"], ROWS["ids"][[0, 0, 2, 2]])
    assert found["floats"] is ROWS["floats"]


def test_rows_cut_short_end_empty():
    found = unusual_rows.cut_short(ROWS)
    np.testing.assert_array_equal(found["ids"][0], [1, 2, 0])
    assert list(found["words"][0]) == ["a", "b", ""]


def test_huge_and_missing_numbers_are_both_inside_and_outside():
    found = unusual_rows.far_and_missing(ROWS)
    assert found["ids"] is ROWS["ids"]
    for rows in (MASK, ~MASK):
        assert np.isnan(found["floats"][rows]).any()
        assert np.nanmax(found["floats"][rows]) > 1e6


@pytest.mark.parametrize("count", [2, 5, 19])
def test_a_batch_begins_with_the_probe_s_rows(count):
    rows = made_up_rows(tf.TensorSpec([None, 2]))
    found = unusual_rows.batch_of(rows, count)
    assert found.shape == (count, 2)
    np.testing.assert_array_equal(found[:4], rows.base[:count])


@pytest.mark.parametrize(("batch_size", "sizes"), [(None, {4, 32}), (7, {4, 7}), (4, {4, 8})])
def test_the_size_that_training_runs_is_run(batch_size, sizes):
    met = set()

    def noticed(x):
        met.add(x.shape[0])
        return x

    model = sequential(layers.Lambda(noticed))
    met.clear()
    assert audit.findings(model, batch_size=batch_size) == []
    assert met == sizes


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 2, 3, 6])
def test_sound_models_pass_in_batches_of_any_size(batch_size):
    model = sequential(layers.LayerNormalization(), layers.Dense(4))
    assert audit.findings(model, loss="mse", batch_size=batch_size) == []


def test_inputs_whose_gradient_is_sparse_can_be_probed():
    """A gather of rows of the input has `tf.IndexedSlices` for a gradient."""
    inputs = keras.Input((FEATURES,))
    rows = layers.Lambda(lambda x: tf.gather(x, tf.range(tf.shape(x)[0])))(inputs)
    assert audit.findings(keras.Model(inputs, layers.Dense(2)(rows))) == []
