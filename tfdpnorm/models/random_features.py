"""A linear classifier on fixed random features of images."""

from tensorflow import keras

from tfdpnorm.layers import RandomPatchFeatures
from tfdpnorm.models.blocks import check_image_shape, logits_at_length_1
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.registry import register


@register("random_features")
def random_features(
    norm="none",
    num_classes=10,
    input_shape=(28, 28, 1),
    filters=64,
    pool=2,
    size=5,
    width=0.4,
    strides=1,
    norm_placement="hidden",
    groups=32,
    statistics="public",
    statistics_gradient="full",
):
    """Random features of patches, averaged over squares, at length 1; then the logits.

    Only the logits are trained, from 0 and without a bias: under strong noise there is less to
    learn than in a network, and no gradient is longer than sqrt(2).

    Args:
        norm: One of `tfdpnorm.models.NORMS`, of the averaged features.
        num_classes: Number of logits.
        input_shape: (height, width, channels).
        filters: See `RandomPatchFeatures`.
        pool: Height and width of the squares.
        size: See `RandomPatchFeatures`.
        width: See `RandomPatchFeatures`.
        strides: See `RandomPatchFeatures`.
        norm_placement: One of `tfdpnorm.models.PLACEMENTS`.
        groups: For norm="group".
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Raises:
        ValueError: for images of fewer than `pool * strides` pixels a side.

    Reference:
        Tramer and Boneh (2021), "Differentially private learning needs better features (or much
        more data)", for linear classifiers on fixed features.
    """
    check_image_shape(input_shape, pool * strides)
    normalize = Normalizer(
        norm,
        norm_placement,
        last_hidden="features",
        groups=groups,
        statistics=statistics,
        statistics_gradient=statistics_gradient,
    )
    inputs = keras.Input(input_shape)
    x = RandomPatchFeatures(filters, size, width, strides, name="features")(inputs)
    x = normalize(keras.layers.AveragePooling2D(pool, name="average")(x), "features")
    outputs = logits_at_length_1(keras.layers.Flatten(name="flatten")(x), num_classes, normalize)
    return keras.Model(inputs, outputs, name=f"random_features_{norm}")
