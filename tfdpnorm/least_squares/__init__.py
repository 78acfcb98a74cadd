"""A linear head from one noisy release of sums, instead of from training."""

from tfdpnorm.least_squares.release import (
    GRAM_SHARE,
    LeastSquaresHead,
    private_least_squares,
)
from tfdpnorm.least_squares.ridge import directions_for

__all__ = ["GRAM_SHARE", "LeastSquaresHead", "directions_for", "private_least_squares"]
