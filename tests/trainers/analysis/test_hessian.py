"""Products with the Hessian against a dense one made by other means."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.layers import PublicBatchNormalization, ScaleNorm
from trainers.analysis.hessian import Hessian


def small_model(*layers, dtype="float64"):
    keras.utils.set_random_seed(2)
    inputs = keras.Input((4,), dtype=dtype)
    x = keras.layers.Dense(3, activation="tanh", dtype=dtype)(inputs)
    for layer in layers:
        x = layer(x)
    return keras.Model(inputs, keras.layers.Dense(2, dtype=dtype)(x))


def rows(count=7):
    rng = np.random.default_rng(3)
    return rng.normal(size=(count, 4)), rng.integers(0, 2, count)


def cross_entropy(y, outputs):
    return keras.losses.sparse_categorical_crossentropy(y, outputs, from_logits=True)


def dense_hessian(model, x, y):
    """By central differences of the gradient, an entry at a time."""
    variables = model.trainable_variables
    start = [v.numpy() for v in variables]
    sizes = [v.size for v in start]

    def gradient_at(flat):
        parts = np.split(flat, np.cumsum(sizes)[:-1])
        for v, part in zip(variables, parts, strict=True):
            v.assign(part.reshape(v.shape))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(cross_entropy(y, model(x, training=False)))
        return np.concatenate([np.ravel(g) for g in tape.gradient(loss, variables)])

    flat, step = np.concatenate([np.ravel(v) for v in start]), 1e-5
    columns = [
        (gradient_at(flat + step * unit) - gradient_at(flat - step * unit)) / (2 * step)
        for unit in np.eye(len(flat))
    ]
    gradient_at(flat)
    return np.stack(columns, axis=1)


def assert_equals_the_dense_one(model, x, y, batch_size=4):
    hessian = Hessian(model, x, y, cross_entropy, batch_size=batch_size)
    expected = dense_hessian(model, x, y)
    found = np.stack([hessian.product(unit) for unit in np.eye(hessian.size)], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-7)
    assert hessian.products == hessian.size == len(expected)


@each("batch_size", [1, 3, 7, 100])
def test_products_are_those_of_the_dense_matrix(batch_size):
    assert_equals_the_dense_one(small_model(), *rows(), batch_size)


@pytest.mark.slow
@each(
    "layer",
    [
        keras.layers.LayerNormalization,
        lambda dtype: keras.layers.GroupNormalization(1, dtype=dtype),
        keras.layers.BatchNormalization,
        PublicBatchNormalization,
        lambda dtype: ScaleNorm(groups=1, dtype=dtype),
        lambda dtype: keras.layers.UnitNormalization(dtype=dtype),
    ],
)
def test_normalisation_layers(layer):
    """`tf.nn.moments` holds the mean constant, which takes a part from second derivatives."""
    assert_equals_the_dense_one(small_model(layer(dtype="float64")), *rows())


def test_layers_run_in_inference_mode():
    layers = [keras.layers.Dropout(0.9, dtype="float64"), PublicBatchNormalization(dtype="float64")]
    model, (x, y) = small_model(*layers), rows()
    hessian = Hessian(model, x, y, cross_entropy)
    vector = np.random.default_rng(0).normal(size=hessian.size)
    np.testing.assert_array_equal(hessian.product(vector), hessian.product(vector))
    expected = dense_hessian(model, x, y) @ vector
    np.testing.assert_allclose(hessian.product(vector), expected, atol=1e-7)
