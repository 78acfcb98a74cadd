"""The choice of a normalisation layer by name, the same for every network family."""

import math

from tensorflow import keras

from tfdpnorm.layers import PublicBatchNormalization

NORMS = ("none", "layer", "group", "batch", "public_batch")

# Normalisations that take a per-channel mean away over more than one row or position of one
# example cancel a bias before them exactly; it would only cost clipping norm and noise.
_CANCELS_BIAS = ("batch", "public_batch")


def check_norm(norm):
    """Raises ValueError unless `norm` is one of `NORMS`."""
    if norm not in NORMS:
        raise ValueError(f"Expected norm to be one of {NORMS}, got {norm!r}.")


def needs_bias(norm):
    """Whether a layer that is followed by normalisation `norm` has use for a bias of its own."""
    return norm not in _CANCELS_BIAS


def normalization_layer(
    norm, channels, rank=2, *, groups=32, statistics="public", statistics_gradient="full", name=None
):
    """Returns a new normalisation layer for channels-last inputs, or None for "none".

    Args:
        norm: One of `NORMS`. "layer" takes its moments over all units of one example (Davody et
            al. 2020, Equation 3): height, width and channels of an image.
        channels: Size of the last axis.
        rank: Rank of the input with the batch: 2 for dense layers, 4 for images.
        groups: For "group": the number of groups aimed at; the greatest common divisor with
            `channels` is used.
        statistics: For "public_batch", see `PublicBatchNormalization`.
        statistics_gradient: Likewise.
        name: Name of the layer.
    """
    check_norm(norm)
    if norm == "none":
        return None
    # float32: under a half-precision policy Keras would take the moments of groups in that.
    if norm == "layer":
        # One group is layer normalisation over all units with one gamma and beta per channel.
        if rank > 2:
            return keras.layers.GroupNormalization(groups=1, name=name, dtype="float32")
        return keras.layers.LayerNormalization(name=name)
    if norm == "group":
        return keras.layers.GroupNormalization(
            groups=math.gcd(groups, channels), name=name, dtype="float32"
        )
    if norm == "batch":
        return keras.layers.BatchNormalization(name=name)
    return PublicBatchNormalization(
        statistics=statistics, statistics_gradient=statistics_gradient, name=name
    )
