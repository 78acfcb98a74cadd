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
    """A convolution, its normalisation, then its activation: [rows, height, width, filters].

    Args:
        x: [rows, height, width, channels].
        filters: Number of output channels.
        size: Height and width of the filters.
        name: Name of the convolution.
        normalize: A `Normalizer`.
        activation: Name of a Keras activation, or None.
        padding: "same" or "valid".
        strides: Steps of the filters, a number.
        kernel_initializer: Name of a Keras initializer.
    """
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
    """Dense layers "dense1", "dense2", ..., each normalised and activated, then the logits.

    Args:
        x: [rows, ...]; more than one dimension is flattened.
        hidden_units: Units of each layer before the logits.
        num_classes: Number of logits.
        normalize: A `Normalizer`.
        activation: Name of a Keras activation.
        kernel_initializer: Name of a Keras initializer.
        dropped: Function from the inputs of a layer and its name to these with dropout; None
            without dropout.

    Returns:
        float32 logits [rows, num_classes].
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
    """Logits of features that are brought to length 1; their kernel begins at 0, without a bias.

    No gradient of the cross-entropy by the kernel is longer than sqrt(2).

    Args:
        x: [rows, features].
        num_classes: Number of logits.
        normalize: A `Normalizer`.

    Returns:
        float32 logits [rows, num_classes].
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

    It trains nothing, so that positions cost neither clipping norm nor noise.

    Call arguments:
        inputs: [rows, words, width], width even.

    Reference:
        Vaswani et al. (2017), Section 3.5.
    """

    def build(self, input_shape):
        words, width = input_shape[1:]
        angles = np.arange(words)[:, None] / 10_000.0 ** (np.arange(0, width, 2) / width)
        self._positions = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        super().build(input_shape)

    def call(self, inputs):
        return inputs + tf.constant(self._positions, inputs.dtype)
