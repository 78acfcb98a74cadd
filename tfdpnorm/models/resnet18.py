"""ResNet-18 for small images."""

from tensorflow import keras

from tfdpnorm.models.blocks import check_image_shape, convolution, dense_layers
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.registry import register

_STAGES = 4
_BLOCKS = 2


@register("resnet18")
def resnet18(
    norm="batch",
    num_classes=10,
    input_shape=(32, 32, 3),
    width=64,
    norm_placement="hidden",
    groups=32,
    statistics="public",
    statistics_gradient="full",
):
    """ResNet-18: a 3x3 convolution, four stages of two residual blocks, the mean, the logits.

    The first convolution has stride 1 and no pooling after it, as is usual for images of 32x32. A
    stage has two blocks of two 3x3 convolutions and twice the channels of the stage before, whose
    positions it halves each way. Convolution, normalisation, ReLU, convolution, normalisation,
    addition, ReLU: a block's skip path is its input, or where the shape changes a 1x1 convolution
    of it with a normalisation of its own. 11,173,962 trainable parameters with norm="batch" and ten
    classes.

    Args:
        norm: One of `tfdpnorm.models.NORMS`.
        num_classes: Number of logits.
        input_shape: (height, width, channels); height and width at least 8.
        width: Channels of the first stage.
        norm_placement: One of `tfdpnorm.models.PLACEMENTS`: "hidden" normalises after each
            trainable layer but the logits, "all" after the logits too, "mod" leaves out
            the one after the last 3x3 convolution.
        groups: For norm="group".
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Reference:
        He et al. (2016); Davody et al. (2020), Tables 1 and 3.
    """
    normalize = Normalizer(
        norm,
        norm_placement,
        last_hidden=f"stage{_STAGES}_block{_BLOCKS}_conv2",
        groups=groups,
        statistics=statistics,
        statistics_gradient=statistics_gradient,
    )
    check_image_shape(input_shape, smallest=8)

    def residual(x, filters, strides, name):
        path = convolution(x, filters, 3, f"{name}_conv1", normalize, strides=strides)
        path = convolution(path, filters, 3, f"{name}_conv2", normalize, activation=None)
        if path.shape != x.shape:
            x = convolution(
                x, filters, 1, f"{name}_projection", normalize, activation=None, strides=strides
            )
        x = keras.layers.Add(name=f"{name}_add")([path, x])
        return keras.layers.Activation("relu", name=f"{name}_activation")(x)

    inputs = keras.Input(input_shape)
    x = convolution(inputs, width, 3, "conv1", normalize)
    for stage in range(1, _STAGES + 1):
        for block in range(1, _BLOCKS + 1):
            strides = 2 if stage > 1 and block == 1 else 1
            x = residual(x, width * 2 ** (stage - 1), strides, f"stage{stage}_block{block}")
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    outputs = dense_layers(x, (), num_classes, normalize)
    return keras.Model(inputs, outputs, name=f"resnet18_{norm}")
