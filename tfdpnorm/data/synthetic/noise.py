"""White noise: every number by itself, for rows of any shape. Functions (rng, count, shape)."""

import numpy as np

_WHITE_SHARE = 0.15  # about the share of an image of handwriting that is ink


def uniform(rng, count, shape):
    """Uniform in [0, 1)."""
    return rng.random((count, *shape), np.float32)


def gaussian(rng, count, shape):
    """Normal, with mean 1/2 and standard deviation 1/4; not cut to [0, 1]."""
    return 0.5 + 0.25 * rng.standard_normal((count, *shape), np.float32)


def sparse(rng, count, shape):
    """0, and 1 for 15 % of the numbers."""
    return (rng.random((count, *shape), np.float32) < _WHITE_SHARE).astype(np.float32)
