"""A small convolutional network that ends in few features, for logits trained privately."""

from tensorflow import keras

from tfdpnorm.models.blocks import check_image_shape, convolution, logits_at_length_1
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.parts import build_part
from tfdpnorm.models.registry import register


@register("small_cnn")
def small_cnn(
    norm="none",
    num_classes=10,
    input_shape=(32, 32, 3),
    width=16,
    units=16,
    part="whole",
    norm_placement="hidden",
    groups=32,
    statistics="public",
    statistics_gradient="full",
):
    """Four 3x3 convolutions, a linear layer of a few features at length 1, and the logits.

    Two convolutions of `width` channels, two of twice as many, each with ReLU; each pair ends in
    2x2 max-pooling. No normalisation follows the linear layer. Few features that lie close together
    in each class are what a linear classifier under strong noise needs.

    Args:
        norm: One of `tfdpnorm.models.NORMS`.
        num_classes: Number of logits.
        input_shape: (height, width, channels), height and width at least 8; with part="head",
            (features,), here `units`.
        width: Channels of the first two convolutions.
        units: Number of features.
        part: "whole"; "features", without the logits, for which num_classes has no meaning; or
            "head", the logits alone.
        norm_placement: One of `tfdpnorm.models.PLACEMENTS`: "hidden" normalises after each
            convolution, "all" after the logits too, "mod" as "hidden".
        groups: For norm="group".
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Reference:
        Tramer and Boneh (2021), "Differentially private learning needs better features (or much
        more data)", for linear classifiers on features of public images.
    """
    normalize = Normalizer(
        norm,
        norm_placement,
        last_hidden="embedding",
        groups=groups,
        statistics=statistics,
        statistics_gradient=statistics_gradient,
    )

    def features(x):
        check_image_shape(input_shape, smallest=8)
        for stage, channels in enumerate((width, 2 * width), start=1):
            for index in (1, 2):
                x = convolution(x, channels, 3, f"stage{stage}_conv{index}", normalize)
            x = keras.layers.MaxPooling2D(name=f"stage{stage}_pool")(x)
        x = keras.layers.Flatten(name="flatten")(x)
        x = keras.layers.Dense(units, name="embedding")(x)
        return keras.layers.UnitNormalization(name="embedding_length1")(x)

    def head(x):
        return logits_at_length_1(x, num_classes, normalize)

    return build_part(part, input_shape, features, head, name=f"small_cnn_{norm}")
