"""ResNet-9, with and without scale normalisation."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.layers import ScaleNorm
from tfdpnorm.models.blocks import dense_layers
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.registry import register


@keras.utils.register_keras_serializable(package="tfdpnorm")
def mish(x):
    """x tanh(softplus(x)) (Misra 2020)."""
    return x * tf.math.tanh(tf.math.softplus(x))


@register("resnet9")
def resnet9(
    norm="group",
    num_classes=10,
    input_shape=(32, 32, 3),
    scale_norm=False,
    groups=32,
    statistics="public",
    statistics_gradient="full",
):
    """ResNet-9: two residual blocks of two convolutions between four plain ones.

    conv 64; conv 128 and pool; residual [128, 128]; conv 256 and pool; conv 256 and pool; residual
    [256, 256]; max-pooled to 2x2; dense. Convolutions are 3x3 without bias, each followed by the
    normalisation and Mish. 2,447,946 parameters with norm="group" and ten classes, 768 more with
    `scale_norm`.

    Args:
        norm: One of `tfdpnorm.models.NORMS`. "group" has min(groups, channels) groups.
        num_classes: Number of logits.
        input_shape: (height, width, channels); height and width multiples of 16.
        scale_norm: Whether `ScaleNorm` follows each residual addition, with the same `norm`
            ("group" where `norm` is none of "group", "batch", "public_batch").
        groups: For group normalisation.
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Reference:
        Klause et al. (2022), Figure 1. Order of layers as in the authors' code: convolution,
        normalisation, activation.
    """
    normalize = Normalizer(
        norm, groups=groups, statistics=statistics, statistics_gradient=statistics_gradient
    )
    if len(input_shape) != 3 or input_shape[0] % 16 or input_shape[1] % 16:
        raise ValueError(
            "Expected input_shape=(height, width, channels) with height and width multiples of 16, "
            f"got {tuple(input_shape)}. Resize the images (tfdpnorm.data.match_images)."
        )

    def block(x, filters, name, pool=False):
        # Without any normalisation a bias is needed to shift what Mish sees.
        use_bias = norm == "none"
        x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=use_bias, name=name)(x)
        x = keras.layers.Activation(mish, name=f"{name}_mish")(normalize(x, name))
        return keras.layers.MaxPooling2D(name=f"{name}_pool")(x) if pool else x

    def residual(x, filters, name):
        path = block(block(x, filters, f"{name}_conv1"), filters, f"{name}_conv2")
        if not scale_norm:
            return keras.layers.Add(name=f"{name}_add")([path, x])
        kind = norm if norm in ("group", "batch", "public_batch") else "group"
        options = {"normalization": kind, "groups": min(groups, filters), "statistics": statistics}
        return ScaleNorm(**options, name=f"{name}_scale_norm")([path, x])

    inputs = keras.Input(input_shape)
    x = block(inputs, 64, "conv1")
    x = block(x, 128, "conv2", pool=True)
    x = residual(x, 128, "residual1")
    x = block(x, 256, "conv3", pool=True)
    x = block(x, 256, "conv4", pool=True)
    x = residual(x, 256, "residual2")
    x = keras.layers.MaxPooling2D((x.shape[1] // 2, x.shape[2] // 2), name="pool_to_2x2")(x)
    outputs = dense_layers(x, (), num_classes, normalize)
    return keras.Model(inputs, outputs, name=f"resnet9_{norm}")
