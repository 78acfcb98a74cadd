"""The end of a residual block: its two paths are added, and the sum is normalised or not."""

from tensorflow import keras

from tfdpnorm.layers import ScaleNorm
from tfdpnorm.models.normalization import number_of_groups

# Normalisations that ScaleNorm has; the others are group normalisation there.
_KINDS = ("group", "batch", "public_batch")


class ResidualSum:
    """Adds the paths of each residual block of one network: call it on a block's two paths.

    Args:
        norm: One of `tfdpnorm.models.NORMS`.
        scale_norm: Whether `ScaleNorm` follows the addition, of the same kind as `norm`: "layer" is
            one group, and where `norm` is "none" or "noised_batch" it is "group".
        groups: Desired number of groups, see `number_of_groups`.
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".
    """

    def __init__(self, norm, scale_norm, *, groups, statistics, statistics_gradient):
        self._scale_norm = scale_norm
        self._groups = 1 if norm == "layer" else groups
        self._options = {
            "normalization": norm if norm in _KINDS else "group",
            "statistics": statistics,
            "statistics_gradient": statistics_gradient,
        }

    def __call__(self, path, skip, name):
        """[rows, ..., channels] of both paths to that of the block; `name` is the block's."""
        if not self._scale_norm:
            return keras.layers.Add(name=f"{name}_add")([path, skip])
        groups = number_of_groups(self._groups, path.shape[-1])
        return ScaleNorm(groups=groups, **self._options, name=f"{name}_scale_norm")([path, skip])
