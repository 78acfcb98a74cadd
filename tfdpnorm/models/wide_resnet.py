"""Wide residual networks with weight-standardised convolutions."""

from tensorflow import keras

from tfdpnorm.arguments import integer, refusal
from tfdpnorm.layers import WeightStandardizedConv2D
from tfdpnorm.models.blocks import dense_layers
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.registry import register
from tfdpnorm.models.residual_sums import ResidualSum


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

    2,752,506 parameters with norm="group" and ten classes, 1,792 more with `scale_norm`. The
    arguments are those of `wide_resnet`.
    """
    return wide_resnet(
        norm,
        num_classes,
        input_shape,
        scale_norm,
        groups,
        statistics=statistics,
        statistics_gradient=statistics_gradient,
    )


@register("wide_resnet")
def wide_resnet(
    norm="group",
    num_classes=10,
    input_shape=(32, 32, 3),
    scale_norm=False,
    groups=16,
    depth=16,
    width=4,
    statistics="public",
    statistics_gradient="full",
):
    """A wide residual network, WRN-depth-width: three groups of (depth - 4) / 6 blocks.

    Blocks are pre-activated: normalisation, ReLU, weight-standardised 3x3 convolution with a gain
    and a bias, twice; the skip path of a group's first block is a plain 1x1 convolution of the
    block's input. The groups have 16, 32 and 64 times `width` channels.

    Args:
        norm: One of `tfdpnorm.models.NORMS`.
        num_classes: Number of logits.
        input_shape: (height, width, channels).
        scale_norm: Whether `ScaleNorm` follows each residual addition; see `ResidualSum`.
        groups: For group normalisation.
        depth: 6 n + 4, with n blocks per group: 10, 16, 22, 28, 34, 40, ...
        width: The factor of the channels.
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Reference:
        Zagoruyko and Komodakis (2016); De et al. (2022), Section 3; Klause et al. (2022), Table 2.
    """
    options = dict(groups=groups, statistics=statistics, statistics_gradient=statistics_gradient)
    normalize = Normalizer(norm, **options)
    added = ResidualSum(norm, scale_norm, **options)
    integer("width", width, at_least=1, wrong_type=ValueError)
    blocks, rest = divmod(integer("depth", depth, at_least=10, wrong_type=ValueError) - 4, 6)
    if rest:
        raise refusal("depth", "to be 4 and a multiple of 6, such as 16, 28 or 40", depth)

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

    inputs = keras.Input(input_shape)
    x = convolution(inputs, 16, "stem")
    for group in (1, 2, 3):
        filters = 16 * width * 2 ** (group - 1)
        for block in range(1, blocks + 1):
            name = f"group{group}_block{block}"
            strides = 2 if group > 1 and block == 1 else 1
            skip = x
            if block == 1:
                skip = keras.layers.Conv2D(
                    filters, 1, strides=strides, use_bias=False, name=f"{name}_skip"
                )(x)
            # The second convolution is followed by an addition, not by a normalisation.
            path = normalize.prepared(activated(x, f"{name}_1"), f"{name}_conv1")
            path = convolution(path, filters, f"{name}_conv1", strides)
            path = convolution(activated(path, f"{name}_2"), filters, f"{name}_conv2")
            x = added(path, skip, name)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(activated(x, "last"))
    outputs = dense_layers(x, (), num_classes, normalize)
    return keras.Model(inputs, outputs, name=f"wrn_{depth}_{width}_{norm}")
