"""Operations that TensorFlow vectorises over rows in a way that mixes them."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops.parallel_for import pfor

from tfdpnorm.keras_compat.corrections import vectorized_map

ROWS = tf.constant(np.random.default_rng(0).normal(size=(4, 3, 5)).astype(np.float32))


@pytest.mark.parametrize("axis", [-1, -2, 0, 1, (-1, 0), (0, -2)], ids=str)
@pytest.mark.parametrize("of_the_row", [False, True], ids=["fixed", "of the row"])
def test_rolling_stays_within_the_row(axis, of_the_row):
    def rolled(row):
        shift = tf.cast(row[0, 0] > 0, tf.int32) + 1 if of_the_row else 2
        return tf.roll(row, [shift] * len(axis) if isinstance(axis, tuple) else shift, axis)

    found = tf.function(lambda rows: vectorized_map(rolled, rows))(ROWS)
    np.testing.assert_array_equal(found, np.stack([rolled(row) for row in ROWS]))


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
def test_a_segment_beyond_the_last_is_not_the_next_rows_first(name):
    reduce = getattr(tf.math, f"unsorted_segment_{name}")
    ids = tf.constant([[0, 3, 9], [1, 2, -1], [2, 2, 0], [3, 1, 0]])
    inside = tf.where(ids < 3, ids, -1)  # dropped, as TensorFlow does on a GPU

    def all_rows(ids):
        both = (ROWS[:, :, 0], ids)
        return tf.function(lambda *both: vectorized_map(lambda row: reduce(*row, 3), both))(*both)

    expected = [reduce(row[:, 0], to, 3) for row, to in zip(ROWS, inside, strict=True)]
    np.testing.assert_allclose(all_rows(ids), expected)


def test_sparse_segments_are_refused():
    def one(row):
        return tf.sparse.segment_sum(row, [0, 1, 2], [0, 0, 1])

    with pytest.raises(NotImplementedError, match="SparseSegmentSum is not vectorised"):
        tf.function(lambda rows: vectorized_map(one, rows))(ROWS)


def test_tensorflows_own_table_is_as_it_was():
    before = dict(pfor._pfor_converter_registry)
    vectorized_map(tf.identity, ROWS)
    assert pfor._pfor_converter_registry == before
