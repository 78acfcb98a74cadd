"""Orthogonal designs: rows that cover all directions evenly. Functions (rng, count, shape)."""

import numpy as np
from scipy import fft


def hadamard(rng, count, shape):
    """Rows of 0 and 1: those of a Hadamard matrix, whose columns are orthogonal.

    With as many rows as the matrix has, the numbers of a row are exactly uncorrelated.
    """
    size = int(np.prod(shape))
    order = 1 << int(max(size, count) - 1).bit_length()
    columns = rng.permutation(order)[:size]
    rows = rng.permutation(order)[:count]
    signs = np.empty((count, size), np.float32)
    # Row by row: the matrix of an image in colour would take hundreds of megabytes.
    for place, row in enumerate(rows):
        signs[place] = 1 - 2 * _parity(row & columns)
    return 0.5 + 0.5 * signs.reshape(count, *shape)


def cosine(rng, count, shape):
    """Images of one wave each: the slowest two-dimensional cosines in turn, with random signs."""
    height, width, channels = shape
    order = np.add.outer(np.arange(height), np.arange(width)).ravel().argsort(kind="stable")
    images = np.empty((count, *shape), np.float32)
    for place in range(count):
        wave = np.zeros(height * width)
        wave[order[(place // 2) % len(order)]] = rng.choice((-1.0, 1.0))
        image = fft.idctn(wave.reshape(height, width), norm="ortho")
        images[place] = (0.5 + 0.5 * image / abs(image).max())[..., np.newaxis]
    return images


def _parity(numbers):
    """Whether the number of ones in the binary digits of integers is odd, as 0 and 1."""
    for shift in (32, 16, 8, 4, 2, 1):
        numbers = numbers ^ (numbers >> shift)
    return numbers & 1
