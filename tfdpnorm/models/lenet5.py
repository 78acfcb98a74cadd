"""LeNet-5 with a normalisation of one's choice after each trainable layer."""

from tensorflow import keras

from tfdpnorm.models.normalization import check_norm, needs_bias, normalization_layer
from tfdpnorm.models.registry import register


@register("lenet5")
def lenet5(
    norm="none",
    num_classes=10,
    input_shape=(28, 28, 1),
    activation="relu",
    pooling="max",
    normalize_logits=False,
    groups=32,
    statistics="public",
    statistics_gradient="full",
):
    """LeNet-5: convolutions of 6 and 16 channels (5x5), dense layers of 120, 84, `num_classes`.

    The first convolution pads, so that a 28x28 image gives 28x28 positions; each convolution is
    followed by 2x2 pooling. Normalisation stands between a layer and its activation. 61,706
    parameters with norm="none" and ten classes.

    Args:
        norm: One of `tfdpnorm.models.NORMS`.
        num_classes: Number of logits.
        input_shape: (height, width, channels); height and width at least 12.
        activation: Name of a Keras activation.
        pooling: "max" or "average".
        normalize_logits: Whether the last layer is normalised too, as in the noise experiments of
            the paper (its Section 2).
        groups: For norm="group".
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Reference:
        Davody et al. (2020), Table 1; LeCun et al. (1998).
    """
    check_norm(norm)
    if len(input_shape) != 3 or any(size is None or size < 12 for size in input_shape[:2]):
        raise ValueError(
            "Expected input_shape=(height, width, channels) with height and width at least 12, "
            f"got {tuple(input_shape)}. Resize smaller images (tfdpnorm.data.match_images)."
        )
    if pooling not in ("max", "average"):
        raise ValueError(f"Expected pooling to be 'max' or 'average', got {pooling!r}.")
    pool = keras.layers.MaxPooling2D if pooling == "max" else keras.layers.AveragePooling2D
    use_bias = needs_bias(norm)

    def normalized(x, name):
        layer = normalization_layer(
            norm,
            channels=x.shape[-1],
            rank=len(x.shape),
            groups=groups,
            statistics=statistics,
            statistics_gradient=statistics_gradient,
            name=f"{name}_norm",
        )
        return x if layer is None else layer(x)

    def activated(x, name):
        x = normalized(x, name)
        return keras.layers.Activation(activation, name=f"{name}_activation")(x)

    inputs = keras.Input(input_shape)
    x = inputs
    for name, filters, padding in (("conv1", 6, "same"), ("conv2", 16, "valid")):
        x = keras.layers.Conv2D(filters, 5, padding=padding, use_bias=use_bias, name=name)(x)
        x = pool(name=f"{name}_pool")(activated(x, name))
    x = keras.layers.Flatten()(x)
    for name, units in (("dense1", 120), ("dense2", 84)):
        x = activated(keras.layers.Dense(units, use_bias=use_bias, name=name)(x), name)
    logits = keras.layers.Dense(
        num_classes, use_bias=use_bias or not normalize_logits, name="logits"
    )(x)
    if normalize_logits:
        logits = normalized(logits, "logits")
    # Losses and their gradients are taken in float32 whatever the policy computes in.
    outputs = keras.layers.Activation("linear", dtype="float32", name="predictions")(logits)
    return keras.Model(inputs, outputs, name=f"lenet5_{norm}")
