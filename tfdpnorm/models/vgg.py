"""A VGG network for small images."""

from tensorflow import keras

from tfdpnorm.models.blocks import check_image_shape, convolution, dense_layers
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.parts import build_part
from tfdpnorm.models.registry import register


@register("vgg")
def vgg(
    norm="batch",
    num_classes=10,
    input_shape=(32, 32, 3),
    width=64,
    part="whole",
    norm_placement="hidden",
    groups=32,
    statistics="public",
    statistics_gradient="full",
):
    """Eight 3x3 convolutions (two of 64 channels, two of 128, four of 256), two dense layers.

    Max-pooling of 2x2 ends each of the three stages; the mean over positions, a dense layer of 512
    and the logits follow. ReLU after each normalisation. 2,462,282 parameters with norm="none" and
    ten classes. We use it for the light-weight VGG of the paper's Table 6 as well, which
    the paper does not describe.

    Args:
        norm: One of `tfdpnorm.models.NORMS`.
        num_classes: Number of logits.
        input_shape: (height, width, channels), height and width at least 8; with part="head",
            (features,), here 4 width.
        width: Channels of the first stage; the second has twice, the third four times as many.
        part: "whole"; "features", the mean over positions without the rest, for which
            num_classes has no meaning; or "head", the dense layers alone.
        norm_placement: One of `tfdpnorm.models.PLACEMENTS`: "hidden" normalises after each
            trainable layer but the logits, "all" after the logits too, "mod" after all but the
            last two.
        groups: For norm="group".
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Reference:
        Davody et al. (2020), Tables 1, 3 and 6; Simonyan and Zisserman (2014).
    """
    normalize = Normalizer(
        norm,
        norm_placement,
        last_hidden="dense1",
        groups=groups,
        statistics=statistics,
        statistics_gradient=statistics_gradient,
    )

    def features(x):
        check_image_shape(input_shape, smallest=8)
        for stage, (depth, factor) in enumerate(((2, 1), (2, 2), (4, 4)), start=1):
            for index in range(1, depth + 1):
                x = convolution(x, width * factor, 3, f"stage{stage}_conv{index}", normalize)
            x = keras.layers.MaxPooling2D(name=f"stage{stage}_pool")(x)
        return keras.layers.GlobalAveragePooling2D(name="pool")(x)

    def head(x):
        return dense_layers(x, (512,), num_classes, normalize)

    return build_part(part, input_shape, features, head, name=f"vgg_{norm}")
