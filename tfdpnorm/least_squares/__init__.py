"""A linear head from one noisy release of sums, instead of from training."""

from tfdpnorm.least_squares.release import LeastSquaresHead, private_least_squares
from tfdpnorm.least_squares.ridge import directions_for

__all__ = ["LeastSquaresHead", "directions_for", "private_least_squares"]
