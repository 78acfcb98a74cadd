"""Noise with neighbours that resemble each other, for images. Functions (rng, count, shape)."""

import numpy as np
from scipy import ndimage

_BLUR = 1.5 / 28  # standard deviation of the blur, in sides of the image
_BORDER = 0.28  # of half a side: what is left free
_GREY_SHARE = 0.75  # of the variance of a channel: what all channels of a pixel have in common


def blurred(rng, count, shape):
    """Normal noise, blurred, about 1/2."""
    return np.clip(0.5 + 0.25 * _blurred_noise(rng, count, shape), 0, 1)


def strokes(rng, count, shape):
    """The highest sixth of blurred noise on 0: lines and blots as wide as the blur."""
    return np.clip(_blurred_noise(rng, count, shape) - 1, 0, 1)


def ink(rng, count, shape):
    """Strokes of full contrast that leave the border free: something in the middle of an image."""
    y, x = (abs(np.linspace(-1, 1, size)) < 1 - _BORDER for size in shape[:2])
    middle = np.outer(y, x)[..., np.newaxis]
    return np.clip(2.5 * (_blurred_noise(rng, count, shape) - 0.7), 0, 1) * middle


def fractal(rng, count, shape):
    """Noise whose amplitude falls as 1 / frequency, as that of photographs does, about 1/2."""
    height, width, _ = shape
    frequency = np.hypot(np.fft.fftfreq(height)[:, np.newaxis], np.fft.rfftfreq(width))
    frequency[0, 0] = frequency.flat[1]  # the mean of an image varies as its slowest wave does
    spectrum = np.fft.rfft2(_noise(rng, count, shape), axes=(1, 2))
    waves = np.fft.irfft2(spectrum / frequency[..., np.newaxis], (height, width), axes=(1, 2))
    return np.clip(0.5 + 0.25 * waves / waves.std(), 0, 1)


def _noise(rng, count, shape):
    """Normal noise [count, *shape] with variance 1, whose channels resemble each other."""
    grey = rng.standard_normal((count, *shape[:2], 1))
    if shape[-1] == 1:
        return grey
    own = rng.standard_normal((count, *shape))
    return np.sqrt(_GREY_SHARE) * grey + np.sqrt(1 - _GREY_SHARE) * own


def _blurred_noise(rng, count, shape):
    """Blurred noise with variance 1."""
    widths = (0, _BLUR * shape[0], _BLUR * shape[1], 0)
    smooth = ndimage.gaussian_filter(_noise(rng, count, shape), widths, mode="wrap")
    return smooth / smooth.std()
