"""The table of an embedding: gradients by id, without a table for each row."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.gradients.invariants import (
    assert_nonfinite_row_counts_as_zero,
    head,
    model_over,
)
from tests.gradients.looped_reference import (
    assert_equals_the_loop,
    example_rows,
    looped_sum,
    loss_function,
    relative_error,
)
from tfdpnorm.gradients import book_keeping
from tfdpnorm.gradients.contributions.contribution import Instantiated
from tfdpnorm.gradients.rules.embedding import LookupSum

layers = keras.layers


def model_of(*inner, shape=(6,), dtype="int32"):
    return model_over(shape, *inner, dtype=dtype)


def test_equals_the_loop():
    """Equal ids in a row, masked ones, one, some on two axes, as floats, and in two calls."""
    inputs = [
        *(keras.Input(shape, dtype="int32") for shape in ((6,), (), (2, 3))),
        keras.Input((6,)),
        keras.Input((4,), dtype="int64"),
    ]
    words, one, two, floats, others = inputs
    twice = layers.Embedding(12, 3)
    parts = [
        layers.Dense(2, "tanh")(layers.Embedding(12, 3)(words)),
        layers.GlobalAveragePooling1D()(layers.Embedding(20, 3, mask_zero=True)(words)),
        layers.Embedding(20, 3)(one),
        layers.LayerNormalization()(layers.Embedding(20, 3)(two)),
        layers.Embedding(20, 3)(floats),
    ]
    x = layers.Concatenate()([layers.Flatten()(x) for x in parts])
    assert_equals_the_loop(keras.Model(inputs, head(x) + head(twice(words)) * head(twice(others))))


def random_sum(rows=5, positions=7, seed=0):
    rng = np.random.default_rng(seed)
    ids = tf.constant(rng.integers(0, 4, (rows, positions)), tf.int32)
    return LookupSum(ids, tf.constant(rng.normal(size=(rows, positions, 3)), tf.float32), (6, 3))


def check(part):
    """`part` against its own instantiated gradients."""
    dense = Instantiated(part.instantiated())
    np.testing.assert_allclose(part.squared_norms(), dense.squared_norms(), rtol=1e-5)
    rows = part.instantiated().shape[0]
    factors, finite = tf.linspace(0.0, 1.0, rows), tf.ones([rows], tf.bool)
    expected = dense.weighted_sum(factors, finite)
    np.testing.assert_allclose(part.weighted_sum(factors, finite), expected, atol=1e-5)


def test_instantiated_gradients_are_those_of_the_table():
    part = random_sum()
    expected = np.zeros((5, 6, 3), np.float32)
    for row in range(5):
        np.add.at(expected[row], part._ids[row].numpy(), part._b[row].numpy())
    np.testing.assert_allclose(part.instantiated(), expected, rtol=1e-6)
    check(part)


def test_merged_and_grouped():
    part, other = random_sum(6), random_sum(6, positions=2, seed=1)
    merged = part.merged(other)
    assert isinstance(merged, LookupSum)
    expected = part.instantiated() + other.instantiated()
    np.testing.assert_allclose(merged.instantiated(), expected, atol=1e-5)
    check(merged)
    dense = Instantiated(other.instantiated())
    for one, another in ((part, dense), (dense, part)):
        np.testing.assert_allclose(one.merged(another).instantiated(), expected, atol=1e-5)
    grouped = merged.grouped(3)
    assert isinstance(grouped, LookupSum)
    expected = tf.reduce_sum(tf.reshape(expected, [2, 3, 6, 3]), 1)
    np.testing.assert_allclose(grouped.instantiated(), expected, atol=1e-5)
    check(grouped)


def test_ids_outside_of_the_table_add_nothing_to_any_row():
    """A GPU finds zeros for them, where a CPU reports an error in the forward pass."""
    ids = tf.constant([[1, 6, -1], [1, 2, 6]])
    part = LookupSum(ids, tf.ones([2, 3, 3]), (6, 3))
    expected = np.zeros((2, 6, 3))
    expected[0, 1] = expected[1, 1] = expected[1, 2] = 1.0
    np.testing.assert_array_equal(part.instantiated(), expected)
    check(part)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
        model = model_of(layers.Embedding(4, 3))
        _, *rest = example_rows(model, 2)
        rows = (tf.fill([2, 6], 4), *rest)
        book_keeping(model, loss_function(model), rows, model.trainable_variables, 1.0)


def test_gradients_that_cancel_have_the_norm_of_what_is_left():
    """Inner products of all pairs of positions would leave rounding in place of the norm."""
    b = tf.constant([[[1e4], [-1e4], [1e-3]]])
    part = LookupSum(tf.constant([[2, 2, 2]]), b, (3, 1))
    np.testing.assert_allclose(part.squared_norms(), [1e-6], rtol=1e-5)


def test_a_row_that_is_not_finite_counts_as_zero():
    model = model_of(layers.Embedding(12, 3), layers.Dense(2, "tanh"))
    assert_nonfinite_row_counts_as_zero(model, np.inf, of_targets=True)


def test_a_graph_holds_no_table_for_each_row():
    model = model_of(layers.Embedding(5000, 3))
    rows = example_rows(model, 8)
    loss_fn = loss_function(model)

    @tf.function(autograph=False)
    def gradients():
        return book_keeping(model, loss_fn, rows, model.trainable_variables, 1.0).gradients

    sizes = [
        t.shape.num_elements() or 0
        for operation in gradients.get_concrete_function().graph.get_operations()
        for t in operation.outputs
        if t.shape.rank is not None
    ]
    assert max(sizes) == 5000 * 3


def test_numbers_of_rows_and_words_known_at_run_time_only():
    inputs = keras.Input((None,), dtype="int32")
    x = layers.GlobalAveragePooling1D()(layers.Embedding(9, 3)(inputs))
    model = keras.Model(inputs, layers.Dense(2)(x))
    loss_fn = loss_function(model)
    shapes = [[None, None], [None, 2], [None], [None]]
    dtypes = [tf.int32, *[tf.float32] * 3]

    @tf.function(
        input_signature=[tf.TensorSpec(*x) for x in zip(shapes, dtypes, strict=True)],
        autograph=False,
    )
    def gradients(*rows):
        return book_keeping(model, loss_fn, rows, model.trainable_variables, 0.1).gradients

    for count, words in ((1, 3), (4, 5)):
        x = tf.constant(np.random.default_rng(0).integers(0, 9, (count, words)), tf.int32)
        rows = (x, tf.zeros([count, 2]), tf.ones(count), tf.ones(count))
        expected = looped_sum(loss_fn, rows, model.trainable_variables, 0.1)
        assert relative_error([g.numpy() for g in gradients(*rows)], expected) < 1e-5


def test_ragged_ids_are_rejected():
    inputs = keras.Input((None,), dtype="int32", ragged=True)
    x = layers.Embedding(9, 3, name="words")(inputs)
    x = layers.Lambda(lambda x: tf.reduce_sum(x, axis=1), output_shape=(3,))(x)
    model = keras.Model(inputs, layers.Dense(2)(x))
    rows = (tf.ragged.constant([[1, 2], [3]]), tf.zeros([2, 2]), tf.ones(2), tf.ones(2))
    with pytest.raises(ValueError, match="'words'"):
        book_keeping(model, loss_function(model), rows, model.trainable_variables, 1.0)
