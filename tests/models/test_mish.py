"""Mish against its definition, with two derivatives."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.models.mish import fused_mish as mish

X = np.concatenate([np.linspace(-30, 30, 601), [100, -100, 1e4, -1e4]])


def with_derivatives(function, x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = function(x)
        first = inner.gradient(y, x)
    return y, first, outer.gradient(first, x)


@each(
    "dtype, tolerance",
    [("float64", 5e-14), ("float32", 5e-7), ("float16", 1e-3)],
)
def test_values_and_derivatives(dtype, tolerance):
    x = tf.cast(X, dtype)
    expected = with_derivatives(
        lambda x: x * tf.math.tanh(tf.math.softplus(x)), tf.cast(x, tf.float64)
    )
    for found, right in zip(with_derivatives(mish, x), expected, strict=True):
        assert found.dtype == x.dtype
        np.testing.assert_allclose(
            tf.cast(found, tf.float64), right, rtol=tolerance, atol=tolerance
        )


def test_it_is_not_fused_with_what_is_before_it():
    """Behind a convolution without bias and a batch normalisation, in inference."""
    layers = keras.layers
    convolution = layers.Conv2D(8, 3, padding="same", use_bias=False)
    norm = layers.BatchNormalization(beta_initializer="ones")
    after = (layers.Activation(mish), layers.GlobalAveragePooling2D())
    model = keras.Sequential([keras.Input((8, 8, 3)), convolution, norm, *after])
    x = np.random.default_rng(0).normal(size=(4, 8, 8, 3)).astype(np.float32)
    np.testing.assert_allclose(model.predict(x, verbose=0), model(x), rtol=1e-4, atol=1e-5)
