"""A linear head from one noisy release of sums, instead of from training."""

from tfdpnorm.least_squares.release import LeastSquaresHead, private_least_squares

__all__ = ["LeastSquaresHead", "private_least_squares"]
