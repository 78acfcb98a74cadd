"""Operations that TensorFlow vectorises over rows in a way that mixes them."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.python.ops.parallel_for import pfor

from tests.each import each
from tests.keras_compat.converters.case import vectorized_map

ROWS = tf.constant(np.random.default_rng(0).normal(size=(4, 3, 5)).astype(np.float32))


@each("axis, of_the_row", itertools.product((-2, 0, (0, -2)), (False, True)))
def test_rolling_stays_within_the_row(axis, of_the_row):
    def rolled(row):
        shift = tf.cast(row[0, 0] > 0, tf.int32) + 1 if of_the_row else 2
        return tf.roll(row, [shift] * len(axis) if isinstance(axis, tuple) else shift, axis)

    found = tf.function(lambda rows: vectorized_map(rolled, rows))(ROWS)
    np.testing.assert_array_equal(found, np.stack([rolled(row) for row in ROWS]))


@each("name", ["sum", "max", "min", "prod"])
def test_a_segment_beyond_the_last_is_not_the_next_rows_first(name):
    reduce = getattr(tf.math, f"unsorted_segment_{name}")
    ids = tf.constant([[0, 3, 9], [1, 2, -1], [2, 2, 0], [3, 1, 0]])
    inside = tf.where(ids < 3, ids, -1)  # dropped, as TensorFlow does on a GPU

    def all_rows(ids):
        both = (ROWS[:, :, 0], ids)
        return tf.function(lambda *both: vectorized_map(lambda row: reduce(*row, 3), both))(*both)

    expected = [reduce(row[:, 0], to, 3) for row, to in zip(ROWS, inside, strict=True)]
    np.testing.assert_allclose(all_rows(ids), expected)


def test_sparse_segments_are_rejected():
    def one(row):
        return tf.sparse.segment_sum(row, [0, 1, 2], [0, 0, 1])

    with pytest.raises(NotImplementedError, match="SparseSegmentSum"):
        tf.function(lambda rows: vectorized_map(one, rows))(ROWS)


@each("count", [1, 4])
def test_squeezing_leaves_the_axis_of_the_rows(count):
    """Of a single one, too, where that is known at run time only."""

    @tf.function(input_signature=[tf.TensorSpec([None, 3, 5])])
    def all_rows(rows):
        return vectorized_map(lambda row: tf.squeeze(row[tf.newaxis, :, tf.newaxis]) * 2.0, rows)

    np.testing.assert_array_equal(all_rows(ROWS[:count]), 2.0 * ROWS[:count])


def test_keras_adds_up_one_row_as_it_does_several():
    """Keras 3 takes the second for a bias, where the batch is of one row."""
    inputs = [tf.constant(np.random.default_rng(0).normal(size=(3, 4, n))) for n in (4, 1)]
    layer = keras.layers.Add(dtype="float64")

    def one(row):
        return layer([x[tf.newaxis] for x in row])[0]

    np.testing.assert_allclose(vectorized_map(one, tuple(inputs)), inputs[0] + inputs[1])


def test_tensorflows_own_table_is_as_it_was():
    before = dict(pfor._pfor_converter_registry)
    vectorized_map(tf.identity, ROWS)
    assert pfor._pfor_converter_registry == before
