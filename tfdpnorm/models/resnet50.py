"""ResNet-50, with and without scale normalisation."""

from tensorflow import keras

from tfdpnorm.models.blocks import check_image_shape, dense_layers
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.registry import register
from tfdpnorm.models.residual_sums import ResidualSum

_BLOCKS = (3, 4, 6, 3)
_EXPANSION = 4


@register("resnet50")
def resnet50(
    norm="group",
    num_classes=10,
    input_shape=(160, 160, 3),
    scale_norm=False,
    groups=32,
    width=64,
    statistics="public",
    statistics_gradient="full",
):
    """ResNet-50: a 7x7 convolution, pooling, four stages of bottleneck blocks, a mean, logits.

    A bottleneck is convolutions 1x1, 3x3 and 1x1, the last with four times the channels. The 3x3
    convolution of a stage's first block halves the positions from the second stage on; there the
    skip path is a normalised 1x1 convolution. Convolutions have no bias and are normalised; ReLU
    follows but for a block's last, where it comes after the addition, and after `ScaleNorm`.
    23,528,522 parameters with norm="group" and ten classes, 30,208 more with `scale_norm`;
    25,557,032 with a thousand classes.

    Args:
        norm: One of `tfdpnorm.models.NORMS`.
        num_classes: Number of logits.
        input_shape: (height, width, channels); height and width at least 32.
        scale_norm: Whether `ScaleNorm` follows each residual addition; see `ResidualSum`.
        groups: For norm="group".
        width: Channels of the first stage's bottlenecks.
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Reference:
        He et al. (2016), stride in the 3x3 convolution as in Goyal et al. (2017); Klause et al.
        (2022), Appendix D.
    """
    options = dict(groups=groups, statistics=statistics, statistics_gradient=statistics_gradient)
    normalize = Normalizer(norm, **options)
    added = ResidualSum(norm, scale_norm, **options)
    check_image_shape(input_shape, smallest=32)

    def convolution(x, filters, size, name, strides=1, activation="relu"):
        x = keras.layers.Conv2D(
            filters,
            size,
            strides=strides,
            padding="same",
            use_bias=norm == "none",
            kernel_initializer="he_normal",
            name=name,
        )(normalize.prepared(x, name))
        x = normalize(x, name)
        return keras.layers.Activation(activation, name=f"{name}_{activation}")(x)

    def bottleneck(x, filters, strides, name):
        path = convolution(x, filters, 1, f"{name}_conv1")
        path = convolution(path, filters, 3, f"{name}_conv2", strides)
        path = convolution(path, _EXPANSION * filters, 1, f"{name}_conv3", activation="linear")
        if path.shape != x.shape:
            x = convolution(
                x, _EXPANSION * filters, 1, f"{name}_projection", strides, activation="linear"
            )
        return keras.layers.Activation("relu", name=f"{name}_relu")(added(path, x, name))

    inputs = keras.Input(input_shape)
    x = convolution(inputs, width, 7, "conv1", strides=2)
    x = keras.layers.MaxPooling2D(3, strides=2, padding="same", name="conv1_pool")(x)
    for stage, blocks in enumerate(_BLOCKS, start=1):
        for block in range(1, blocks + 1):
            strides = 2 if stage > 1 and block == 1 else 1
            x = bottleneck(x, width * 2 ** (stage - 1), strides, f"stage{stage}_block{block}")
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    outputs = dense_layers(x, (), num_classes, normalize)
    return keras.Model(inputs, outputs, name=f"resnet50_{norm}")
