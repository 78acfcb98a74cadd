"""Images of simple things: ellipses and bars of one colour before each other."""

import numpy as np

_THINGS = 4


def shapes(rng, count, shape):
    """Images [count, *shape] of turned ellipses and bars on a ground of one colour."""
    height, width, channels = shape
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    images = np.broadcast_to(rng.random((count, 1, 1, channels)), (count, *shape))
    for _ in range(_THINGS):
        drawn = lambda low, high: rng.uniform(low, high, (count, 1, 1))  # noqa: E731
        angle, left, top = drawn(0, np.pi), drawn(0, 1), drawn(0, 1)
        along = (np.cos(angle) * (x - left) + np.sin(angle) * (y - top)) / drawn(0.1, 0.5)
        across = (np.cos(angle) * (y - top) - np.sin(angle) * (x - left)) / drawn(0.03, 0.3)
        is_ellipse = rng.random((count, 1, 1)) < 0.5
        inside = np.where(is_ellipse, np.hypot(along, across), np.maximum(abs(along), abs(across)))
        colour = rng.random((count, 1, 1, channels))
        images = np.where(inside[..., np.newaxis] < 1, colour, images)
    return images
