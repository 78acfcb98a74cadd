"""Layers with their normalisation and activation, which the network families share."""

from tensorflow import keras

from tfdpnorm.models.normalization import LOGITS


def check_image_shape(input_shape, smallest):
    """Raises ValueError unless it is (height, width, channels) of `smallest` pixels a side."""
    if len(input_shape) != 3 or any(size is None or size < smallest for size in input_shape[:2]):
        raise ValueError(
            "Expected input_shape=(height, width, channels) with height and width at least "
            f"{smallest}, got {tuple(input_shape)}. Resize smaller images "
            "(tfdpnorm.data.match_images)."
        )


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
        padding: As in Keras.
        strides: As in Keras.
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
):
    """Dense layers "dense1", "dense2", ..., each normalised and activated, then the logits.

    Args:
        x: [rows, ...]; more than one dimension is flattened.
        hidden_units: Units of each layer before the logits.
        num_classes: Number of logits.
        normalize: A `Normalizer`.
        activation: Name of a Keras activation.
        kernel_initializer: Name of a Keras initializer.

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
