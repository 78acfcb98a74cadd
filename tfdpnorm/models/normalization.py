"""Which normalisation a network has, and after which of its layers: the same for every family."""

from __future__ import annotations

import math
import numbers

from tensorflow import keras

from tfdpnorm.arguments import choice, refusal
from tfdpnorm.choices import NORMS, PLACEMENTS
from tfdpnorm.dtypes import at_least_float32
from tfdpnorm.layers import (
    NoisedBatchNormalization,
    PublicBatchNormalization,
    PublicCentering,
    ScaleNorm,
)

LOGITS = "logits"  # name of every network's last trainable layer

# Normalisations that subtract a per-channel mean over more than one row, or over positions of one
# example, cancel a bias before them exactly; it would only cost clipping norm and noise.
_CANCELS_BIAS = ("batch", "public_batch", "noised_batch")

# Those that ScaleNorm has; the others are group normalisation there.
_OF_SCALE_NORM = ("group", "batch", "public_batch")


def check_norm(norm):
    """Raises ValueError unless `norm` is one of `NORMS`."""
    choice("norm", norm, NORMS)


def check_groups(groups: int) -> None:
    """Raises ValueError unless `groups` is -1 or a power of two.

    Numbers of channels mostly are powers of two, or multiples of one. What divides none of them
    would be a single group, without a word.

    Args:
        groups: The number of groups.
    """
    whole = isinstance(groups, numbers.Integral) and not isinstance(groups, bool)
    if not whole or (groups != -1 and (groups < 1 or groups & (groups - 1))):
        raise refusal("groups", "of -1 (one per channel) or a power of two", groups)


def _number_of_groups(groups, channels):
    """The most groups that divide `channels` and `groups`, a power of two; for -1, `channels`."""
    check_groups(groups)
    return channels if groups == -1 else math.gcd(groups, channels)


def needs_bias(norm):
    """Whether a layer followed by normalisation `norm` needs a bias of its own."""
    return norm not in _CANCELS_BIAS


def normalization_layer(
    norm: str,
    channels: int,
    rank: int = 2,
    *,
    positions: int | None = None,
    groups: int = 32,
    statistics: str = "public",
    statistics_gradient: str = "full",
    name: str | None = None,
) -> keras.layers.Layer | None:
    """Returns a new normalisation layer for channels-last inputs, or None for "none".

    Args:
        norm: One of `NORMS`. "layer" takes its moments over all units of one example (Davody et
            al. 2020, Equation 3): height, width and channels of an image.
        channels: Size of the last axis.
        rank: Rank of the input with the batch: 2 for dense layers, 4 for images.
        positions: How many positions each channel has, where that is known.
        groups: For "group": the desired number of groups, see `_number_of_groups`.
        statistics: For "public_batch", see `PublicBatchNormalization`.
        statistics_gradient: For "public_batch", see `PublicBatchNormalization`.
        name: Name of the layer.

    Returns:
        A Keras layer that is not built, or None.

    Raises:
        ValueError: for an unknown norm or number of groups, or if "layer" or "group" would
            normalise single units, which makes every output the constant beta.
    """
    check_norm(norm)
    if norm == "none":
        return None
    actual_groups = {"layer": 1, "group": _number_of_groups(groups, channels)}.get(norm)
    if actual_groups == channels and 1 in (positions, rank - 1):
        raise ValueError(
            f"Expected groups of two units or more to normalise, got {channels} units in "
            f"{actual_groups} groups at {name!r}, whose output would be constant. Choose fewer "
            'groups, another norm, or for the logits norm_placement="hidden".'
        )
    # Under a half-precision policy Keras would take the moments of groups in half precision.
    wide = at_least_float32(keras.mixed_precision.global_policy().compute_dtype).name
    if norm == "layer":
        # One group is layer normalisation over all units with one gamma and beta per channel.
        if rank > 2:
            return keras.layers.GroupNormalization(groups=1, name=name, dtype=wide)
        return keras.layers.LayerNormalization(name=name)
    if norm == "group":
        return keras.layers.GroupNormalization(groups=actual_groups, name=name, dtype=wide)
    if norm == "batch":
        return keras.layers.BatchNormalization(name=name)
    if norm == "noised_batch":
        return NoisedBatchNormalization(name=name)
    return PublicBatchNormalization(
        statistics=statistics, statistics_gradient=statistics_gradient, name=name
    )


class Normalizer:
    """The normalisation of one network: call it on a layer's output to add what follows.

    Args:
        placement: After which trainable layers it stands; without effect on norm="none". "hidden":
            each but the last, the logits. "all": the logits too, the networks with prefix "BN-" or
            "LN-" of the paper. "mod": as "hidden", but for `last_hidden`, the paper's "-mod".
        last_hidden: Name of the last trainable layer before the logits.

    The other arguments are those of `normalization_layer`.

    Reference:
        Davody et al. (2020), Section 2.
    """

    def __init__(
        self,
        norm,
        placement="hidden",
        *,
        last_hidden=None,
        groups=32,
        statistics="public",
        statistics_gradient="full",
    ):
        check_norm(norm)
        choice("norm_placement", placement, PLACEMENTS)
        self.norm = norm
        self._skipped = {"hidden": (LOGITS,), "all": (), "mod": (LOGITS, last_hidden)}[placement]
        self._options = {
            "groups": groups,
            "statistics": statistics,
            "statistics_gradient": statistics_gradient,
        }

    def follows(self, name):
        """Whether a normalisation follows the layer `name`."""
        return self.norm != "none" and name not in self._skipped

    def needs_bias(self, name):
        """Whether the layer `name` needs a bias of its own."""
        return not self.follows(name) or needs_bias(self.norm)

    def prepared(self, x, name):
        """Returns x, the input of the linear layer `name`, centred if normalisation allows it."""
        if self.norm != "public_batch" or not self.follows(name):
            return x
        return PublicCentering(statistics=self._options["statistics"], name=f"{name}_centering")(x)

    def __call__(self, x, name, each_position=False):
        """Returns x, normalised by a new layer `{name}_norm` if a normalisation follows `name`.

        x, [rows, ..., channels], is the output of the layer `name`. With `each_position`,
        norm="layer" takes its moments over the channels of each position (each word) instead of all
        units of an example.
        """
        if not self.follows(name):
            return x
        rank = 2 if each_position and self.norm == "layer" else len(x.shape)
        sizes = x.shape[1:-1]
        positions = math.prod(sizes) if None not in sizes else None
        layer = normalization_layer(
            self.norm,
            channels=x.shape[-1],
            rank=rank,
            positions=1 if rank == 2 else positions,
            name=f"{name}_norm",
            **self._options,
        )
        return layer(x)

    def added(self, path, skip, name, scale_norm):
        """Returns the sum of both paths, [rows, ..., channels], of the residual block `name`.

        With `scale_norm`, `ScaleNorm` makes the sum, of the kind of the network: "layer" is one
        group, and for a network with "none" or "noised_batch" it is "group".
        """
        if not scale_norm:
            return keras.layers.Add(name=f"{name}_add")([path, skip])
        groups = 1 if self.norm == "layer" else self._options["groups"]
        return ScaleNorm(
            self.norm if self.norm in _OF_SCALE_NORM else "group",
            _number_of_groups(groups, path.shape[-1]),
            statistics=self._options["statistics"],
            statistics_gradient=self._options["statistics_gradient"],
            name=f"{name}_scale_norm",
        )([path, skip])
