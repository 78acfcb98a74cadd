"""Rows of token ids. Functions (rng, count, shape, size), to ids in [0, size)."""

import numpy as np


def tokens(rng, count, shape, size):
    """All ids are equally common."""
    return rng.integers(size, size=(count, *shape))


def zipf(rng, count, shape, size):
    """The id of rank r, the smallest first, is as common as 1 / r: Zipf's law of words."""
    weights = 1 / np.arange(1, size + 1)
    return rng.choice(size, (count, *shape), p=weights / weights.sum())
