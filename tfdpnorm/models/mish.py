"""The activation Mish with a fused gradient."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.dtypes import widened
from tfdpnorm.keras_compat.devices_and_precision import compiled


@keras.utils.register_keras_serializable(package="tfdpnorm")
def fused_mish(x):
    """x tanh(softplus(x)), of the dtype of x, computed in float32 under a half-precision policy.

    Misra (2020), "Mish: a self regularized non-monotonic activation function", Equation 1. A file
    of Keras 2 names a function called like one of its own as that one, which TensorFlow 2.15 cannot
    run behind a folded batch normalisation.
    """
    return tf.cast(_mish(widened(x)), x.dtype)


@tf.custom_gradient
def _mish(x):
    return _forward(x), lambda b: _backward(x, b)


@compiled
def _forward(x):
    """x tanh(softplus(x)), in one exponential.

    With w = exp(x), tanh(softplus(x)) = (w^2 + 2 w) / (w^2 + 2 w + 2). TensorFlow 2.15 takes the
    other form for the Mish of oneDNN, which it cannot run behind a batch normalisation.
    """
    w = tf.exp(tf.minimum(x, 20.0))
    s = w * (w + 2.0)
    return x * (s / (s + 2.0))


@compiled
def _backward(x, b):
    """b times the derivative, in one exponential.

    With w = exp(x), tanh(softplus(x)) = 1 - 2 / (w^2 + 2 w + 2). Above 20, it is 1 to the last bit.
    """
    x = tf.minimum(x, 20.0)
    w = tf.exp(x)
    r = 1.0 / (w * (w + 2.0) + 2.0)
    return b * (1.0 - 2.0 * r + x * 4.0 * w * (w + 1.0) * tf.square(r))
