"""Sums of clipped per-example gradients. Nothing here knows of noise."""

from tfdpnorm.gradients.clipping import ClippedSum, Clipping, clip_factors, clipped_sum
from tfdpnorm.gradients.engines.book_keeping import BookKept, book_keeping
from tfdpnorm.gradients.engines.per_example import per_example
from tfdpnorm.gradients.rules import Instantiated, OuterSum, Rule, register_rule

__all__ = [
    "BookKept",
    "ClippedSum",
    "Clipping",
    "Instantiated",
    "OuterSum",
    "Rule",
    "book_keeping",
    "clip_factors",
    "clipped_sum",
    "per_example",
    "register_rule",
]
