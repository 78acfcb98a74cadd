"""The network of TensorFlow's tutorial on CIFAR-10, as Abadi et al. (2016) trained it."""

from tensorflow import keras

from tfdpnorm.models.blocks import check_image_shape, convolution, dense_layers
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.parts import build_part
from tfdpnorm.models.registry import register

_CROP = 24


@register("tf_tutorial")
def tf_tutorial(
    norm="none",
    num_classes=10,
    input_shape=(32, 32, 3),
    part="whole",
    norm_placement="hidden",
    groups=32,
    statistics="public",
    statistics_gradient="full",
):
    """Two 5x5 convolutions of 64 channels, each with 2x2 max-pooling; dense 384, 384, the logits.

    Larger images are cropped to their middle 24x24 pixels, so that the dense layers see 6x6x64 =
    2,304 features. ReLU after each normalisation. 1,144,138 parameters with norm="none" and ten
    classes.

    Args:
        norm: One of `tfdpnorm.models.NORMS`.
        num_classes: Number of logits.
        input_shape: (height, width, channels), height and width at least 8; with part="head",
            (features,).
        part: "whole"; "features", the convolutions without the rest, for which
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
        Abadi et al. (2016), Section 5.3; Davody et al. (2020), Table 6.
    """
    normalize = Normalizer(
        norm,
        norm_placement,
        last_hidden="dense2",
        groups=groups,
        statistics=statistics,
        statistics_gradient=statistics_gradient,
    )

    def features(x):
        check_image_shape(input_shape, smallest=8)
        height, width = (min(size, _CROP) for size in input_shape[:2])
        if (height, width) != tuple(input_shape[:2]):
            x = keras.layers.CenterCrop(height, width, name="crop")(x)
        for name in ("conv1", "conv2"):
            x = convolution(x, 64, 5, name, normalize)
            x = keras.layers.MaxPooling2D(name=f"{name}_pool")(x)
        return keras.layers.Flatten(name="flatten")(x)

    def head(x):
        return dense_layers(x, (384, 384), num_classes, normalize)

    return build_part(part, input_shape, features, head, name=f"tf_tutorial_{norm}")
