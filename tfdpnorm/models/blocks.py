"""Layers with their normalisation and activation, which the network families share."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.models.normalization import LOGITS


def convolution(
    x,
    filters,
    size,
    name,
    normalize,
    activation="relu",
    padding="same",
    strides=1,
    kernel_initializer="glorot_uniform",
):
    """A convolution, its normalisation by a `Normalizer`, then its activation, if it has one."""
    x = keras.layers.Conv2D(
        filters,
        size,
        strides=strides,
        padding=padding,
        use_bias=normalize.needs_bias(name),
        kernel_initializer=kernel_initializer,
        name=name,
    )(normalize.prepared(x, name))
    return _activated(normalize(x, name), name, activation)


def dense_layers(
    x,
    hidden_units,
    num_classes,
    normalize,
    activation="relu",
    kernel_initializer="glorot_uniform",
    dropped=None,
):
    """Dense layers "dense1", "dense2", ..., each normalised and activated, then float32 logits.

    x, [rows, ...], is flattened. `dropped` gives for the inputs of a layer and its name these with
    dropout; None without dropout.
    """
    if len(x.shape) > 2:
        x = keras.layers.Flatten(name="flatten")(x)

    def dense(x, units, name):
        layer = keras.layers.Dense(
            units,
            use_bias=normalize.needs_bias(name),
            kernel_initializer=kernel_initializer,
            name=name,
        )
        x = x if dropped is None else dropped(x, name)
        return normalize(layer(normalize.prepared(x, name)), name)

    for index, units in enumerate(hidden_units, start=1):
        name = f"dense{index}"
        x = _activated(dense(x, units, name), name, activation)
    x = dense(x, num_classes, LOGITS)
    # Losses and their gradients are computed in float32, whatever the policy computes in.
    return keras.layers.Activation("linear", dtype="float32", name="predictions")(x)


def logits_at_length_1(x, num_classes, normalize):
    """float32 logits of features, [rows, features], that are brought to length 1.

    Their kernel begins at 0, without a bias. No gradient of the cross-entropy with respect to it is
    longer than sqrt(2).
    """
    x = keras.layers.UnitNormalization(name="length1")(x)
    x = keras.layers.Dense(num_classes, use_bias=False, kernel_initializer="zeros", name=LOGITS)(x)
    x = normalize(x, LOGITS)
    # Losses and their gradients are computed in float32, whatever the policy computes in.
    return keras.layers.Activation("linear", dtype="float32", name="predictions")(x)


def _activated(x, name, activation):
    if activation is None:
        return x
    return keras.layers.Activation(activation, name=f"{name}_activation")(x)


@keras.utils.register_keras_serializable(package="tfdpnorm")
class SinusoidalPositions(keras.layers.Layer):
    """Adds its position to each word vector: sin and cos of position / 10000^(2i / width).

    It trains nothing, so that positions cost neither clipping norm nor noise. Inputs are [rows,
    words, width], width even. Vaswani et al. (2017), Section 3.5.
    """

    def build(self, input_shape):
        words, width = input_shape[1:]
        angles = np.arange(words)[:, None] / 10_000.0 ** (np.arange(0, width, 2) / width)
        self._positions = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        super().build(input_shape)

    def call(self, inputs):
        return inputs + tf.constant(self._positions, inputs.dtype)
