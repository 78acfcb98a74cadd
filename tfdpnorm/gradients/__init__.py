"""Sums of clipped per-example gradients. Nothing here knows of noise."""

from tfdpnorm.gradients.clipping import ClippedSum, clip_factors, clipped_sum
from tfdpnorm.gradients.per_example import per_example

__all__ = ["ClippedSum", "clip_factors", "clipped_sum", "per_example"]
