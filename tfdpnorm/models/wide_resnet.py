"""Wide residual networks with weight-standardised convolutions."""

from tensorflow import keras

from tfdpnorm.layers import ScaleNorm, WeightStandardizedConv2D
from tfdpnorm.models.blocks import dense_layers
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.registry import register


@register("wrn_16_4")
def wrn_16_4(
    norm="group",
    num_classes=10,
    input_shape=(32, 32, 3),
    scale_norm=False,
    groups=16,
    statistics="public",
    statistics_gradient="full",
):
    """WRN-16-4: three groups of two pre-activation blocks, 64, 128 and 256 channels wide.

    Normalisation, ReLU, weight-standardised 3x3 convolution with a gain and a bias, twice a block;
    the skip path of a group's first block is a plain 1x1 convolution of the block's input.
    2,752,506 parameters with norm="group" and ten classes, 1,792 more with `scale_norm`.

    Args:
        norm: One of `tfdpnorm.models.NORMS`.
        num_classes: Number of logits.
        input_shape: (height, width, channels).
        scale_norm: Whether `ScaleNorm` follows each residual addition, with the same `norm`
            ("group" where `norm` is none of "group", "batch", "public_batch").
        groups: For group normalisation.
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Reference:
        Zagoruyko and Komodakis (2016); De et al. (2022), Section 3; Klause et al. (2022), Table 2.
    """
    normalize = Normalizer(
        norm, groups=groups, statistics=statistics, statistics_gradient=statistics_gradient
    )

    def activated(x, name):
        return keras.layers.Activation("relu", name=f"{name}_relu")(normalize(x, name))

    def convolution(x, filters, name, strides=1):
        return WeightStandardizedConv2D(
            filters,
            3,
            strides=strides,
            padding="same",
            kernel_initializer="lecun_normal",
            name=name,
        )(x)

    def added(path, skip, name):
        if not scale_norm:
            return keras.layers.Add(name=f"{name}_add")([path, skip])
        kind = norm if norm in ("group", "batch", "public_batch") else "group"
        options = {"normalization": kind, "groups": groups, "statistics": statistics}
        return ScaleNorm(**options, name=f"{name}_scale_norm")([path, skip])

    inputs = keras.Input(input_shape)
    x = convolution(inputs, 16, "stem")
    for group, (filters, strides) in enumerate(((64, 1), (128, 2), (256, 2)), start=1):
        for block in (1, 2):
            name = f"group{group}_block{block}"
            strides = strides if block == 1 else 1
            skip = x
            if block == 1:
                skip = keras.layers.Conv2D(
                    filters, 1, strides=strides, use_bias=False, name=f"{name}_skip"
                )(x)
            path = convolution(activated(x, f"{name}_1"), filters, f"{name}_conv1", strides)
            path = convolution(activated(path, f"{name}_2"), filters, f"{name}_conv2")
            x = added(path, skip, name)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(activated(x, "last"))
    outputs = dense_layers(x, (), num_classes, normalize)
    return keras.Model(inputs, outputs, name=f"wrn_16_4_{norm}")
