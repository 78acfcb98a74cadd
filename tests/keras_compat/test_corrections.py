"""Operations that TensorFlow vectorises over rows in a way that mixes them."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.python.ops.parallel_for import pfor

from tests.keras_compat.converters.case import vectorized_map

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


def test_sparse_segments_are_rejected():
    def one(row):
        return tf.sparse.segment_sum(row, [0, 1, 2], [0, 0, 1])

    with pytest.raises(NotImplementedError, match="SparseSegmentSum is not vectorised"):
        tf.function(lambda rows: vectorized_map(one, rows))(ROWS)


@pytest.mark.parametrize("count", [1, 4])
def test_squeezing_leaves_the_axis_of_the_rows(count):
    """Of a single one, too, where that is known at run time only."""

    @tf.function(input_signature=[tf.TensorSpec([None, 3, 5])])
    def all_rows(rows):
        return vectorized_map(lambda row: tf.squeeze(row[tf.newaxis, :, tf.newaxis]) * 2.0, rows)

    np.testing.assert_array_equal(all_rows(ROWS[:count]), 2.0 * ROWS[:count])


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 2), (2, 3, 2, 2, 2)])
def test_biases_of_channels_first_are_of_their_row(shape):
    rng = np.random.default_rng(0)
    rows = tf.constant(rng.normal(size=(5, *shape))), tf.constant(rng.normal(size=(5, 3)))

    def one(row):
        with tf.GradientTape() as tape:
            tape.watch(row[1])
            total = tf.reduce_sum(tf.nn.bias_add(*row, data_format="NCHW") ** 2)
        return total, tape.gradient(total, row[1])

    totals, gradients = tf.function(lambda *rows: vectorized_map(one, rows))(*rows)
    x = rows[0] + tf.reshape(rows[1], [5, 1, 3] + [1] * (len(shape) - 2))
    axes = [1, *range(3, 1 + len(shape))]
    np.testing.assert_allclose(totals, tf.reduce_sum(x**2, range(1, 1 + len(shape))))
    np.testing.assert_allclose(gradients, tf.reduce_sum(2 * x, axes))


@pytest.mark.parametrize("adjoint", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1,), ()),
        ((), (1,)),
        ((1,), (1,)),
        ((1, 3), ()),
        ((3, 1), ()),
        ((3, 1), (1,)),
        ((1, 3), (3,)),
        ((3, 1), (1, 1)),
        ((1, 2, 1), (3, 1, 1)),
        ((2, 3), (3,)),
        ((), ()),
        ((1,), (3,)),
    ],
    ids=str,
)
def test_products_with_axes_of_one_entry(left, right, adjoint):
    """As of each row. TensorFlow 2.21 spoils memory at [8, 1, 4, 5] times [5, 6]."""
    rng = np.random.default_rng(0)
    matrices = [(5, 4) if adjoint[0] else (4, 5), (6, 5) if adjoint[1] else (5, 6)]
    x, y = (rng.normal(size=(8, *b, *m)) for b, m in zip((left, right), matrices, strict=True))

    def product(x, y):
        return tf.raw_ops.BatchMatMulV2(x=x, y=y, adj_x=adjoint[0], adj_y=adjoint[1])

    for of_row, (a, b) in {(0, 1): (x, y), (0,): (x, y[0]), (1,): (x[0], y)}.items():
        rows = tuple(tf.constant((a, b)[i]) for i in of_row)

        def one(row, of_row=of_row, fixed=(a, b)):
            return product(*(row[of_row.index(i)] if i in of_row else fixed[i] for i in (0, 1)))

        found = tf.function(lambda *rows, one=one: vectorized_map(one, rows))(*rows)
        np.testing.assert_allclose(found, np.stack([one([r[i] for r in rows]) for i in range(8)]))


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
