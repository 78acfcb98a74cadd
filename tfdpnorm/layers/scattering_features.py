"""Fixed wavelet features of an image: the scattering transform, which has no weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from tensorflow import keras

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


_ANGLES = 8  # L
_STRIDE = 4  # 2^J, with J = 2 scales
_MULTIPLE = 8  # of the sides, which makes 28 pixels 32
_SMALLEST = 6  # the mirror needs five pixels
_WIDTH = 0.8  # sigma at the finest scale, in pixels
_FREQUENCY = 3 * math.pi / 4  # xi at the finest scale
_SLANT = 4 / _ANGLES  # the envelope is 1 / slant times longer across the wave
_NEGLIGIBLE = 1e-9  # a quarter of a filter's spectrum below this is left out


@keras.utils.register_keras_serializable(package="tfdpnorm")
class ScatteringFeatures(keras.layers.Layer):
    """Averages of moduli of wavelet transforms of an image, of orders 0 to 2.

    With Morlet wavelets psi of two scales (1 and 2) and eight angles, and a Gaussian phi, the 81
    features at each fourth pixel are x * phi; |x * psi_a| * phi for the 16 wavelets; and ||x *
    psi_a| * psi_b| * phi for a of scale 1 and b of scale 2. They change little when the image is
    moved or deformed by less than four pixels. Moduli after a wavelet of scale 2 are computed at
    every second pixel. Sides are filled up by zeros to a multiple of eight, and mirrored at the
    border by four pixels. In the torus around these, the sum of squares of the features is at most
    that of the pixels, and features of two images differ by at most what the images do: mirrored
    pixels included, a factor of four.

    Privacy:
        Per-example, and without weights: nothing that is computed depends on data.

    Call arguments:
        inputs: [rows, height, width, channels], such as pixels in [0, 1].

    Returns:
        [rows, ceil(height / 8) 2, ceil(width / 8) 2, 81 channels]: first all of the first channel,
        the orders in turn, [8, 8, 81] for 28 x 28 x 1 and [8, 8, 243] for 32 x 32 x 3. Half
        precision is computed in float32.

    Raises:
        ValueError: if height or width is not known or is below 6.

    Reference:
        Bruna and Mallat (2013), "Invariant scattering convolution networks"; constants as in
        Andreux et al. (2020), "Kymatio"; Tramer and Boneh (2021), Section 2, for private training.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_spec = keras.layers.InputSpec(ndim=4)

    def build(self, input_shape: Sequence[int | None]) -> None:
        sides = tuple(input_shape[1:3])
        if None in sides or min(sides) < _SMALLEST:
            raise ValueError(
                f"Expected images of known height and width, at least {_SMALLEST}, got {sides}. "
                "Resize them (tfdpnorm.data.match_images)."
            )
        torus = [_up(side) + 2 * _STRIDE for side in sides]
        self._fine, self._coarse = (
            np.stack([_morlet(torus, scale, turn) for turn in range(_ANGLES)]) for scale in (1, 2)
        )
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        real = tf.float64 if self.compute_dtype == "float64" else tf.float32
        x = tf.transpose(_mirrored(tf.cast(inputs, real)), [0, 3, 1, 2])
        spectrum = _spectrum(x)[:, :, tf.newaxis]
        moduli = tf.abs(tf.signal.ifft2d(spectrum * tf.cast(self._fine, spectrum.dtype)))
        maps = tf.concat([x[:, :, tf.newaxis], moduli], axis=2)  # [rows, channels, 9, ...]
        spectra = _spectrum(maps)
        seconds = [tf.abs(tf.signal.ifft2d(_every_second(spectra, psi))) for psi in self._coarse]
        found = tf.concat([_averaged(maps, 1), *(_averaged(m, 2) for m in seconds)], axis=2)
        sides = [found.shape[3], found.shape[4]]
        found = tf.reshape(found, [-1, inputs.shape[-1] * found.shape[2], *sides])
        return tf.cast(tf.transpose(found, [0, 2, 3, 1]), self.compute_dtype)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple | tf.TensorShape:
        sides = [_up(side) // _STRIDE for side in input_shape[1:3]]
        return (input_shape[0], *sides, (1 + _ANGLES) ** 2 * input_shape[3])


def _up(side):
    return -(-side // _MULTIPLE) * _MULTIPLE


def _mirrored(x):
    """[rows, height, width, channels] with zeros up to a multiple of eight, then mirrored."""
    missing = [_up(side) - side for side in x.shape[1:3]]
    x = tf.pad(x, [[0, 0], *([n // 2, n - n // 2] for n in missing), [0, 0]])
    for axis in (1, 2):  # MirrorPad does not take batches of no rows
        x = tf.gather(x, np.pad(np.arange(x.shape[axis]), _STRIDE, "reflect"), axis=axis)
    return x


def _spectrum(x):
    return tf.signal.fft2d(tf.complex(x, tf.zeros_like(x)))


def _every_second(spectra, psi):
    """The spectrum of a convolution with a filter at every second pixel: aliases added up."""
    height, width = (n // 2 for n in psi.shape)
    total = 0.0
    for rows in (slice(height), slice(height, None)):
        for columns in (slice(width), slice(width, None)):
            quarter = psi[rows, columns] / 4
            if abs(quarter).max() > _NEGLIGIBLE:
                total += spectra[..., rows, columns] * tf.cast(quarter, spectra.dtype)
    return total


def _averaged(maps, step):
    """Convolves [..., height, width], each `step`-th pixel, with phi, at each fourth pixel."""
    down, across = (
        tf.constant(_averages(step * n, step), maps.dtype) for n in (maps.shape[-2], maps.shape[-1])
    )
    return tf.matmul(tf.matmul(down, maps), across, transpose_b=True)


def _averages(size, step):
    """Matrix [places, size / step] of phi around each fourth pixel of a torus but its border."""
    places = np.arange(_STRIDE, size - _STRIDE, _STRIDE)
    away = places[:, np.newaxis] - np.arange(0, size, step)
    turns = size * np.arange(-2, 3)[:, np.newaxis, np.newaxis]
    weights = np.exp(-((away + turns) ** 2) / (2 * (2 * _WIDTH) ** 2)).sum(axis=0)
    return weights / weights.sum(axis=1, keepdims=True)


def _morlet(torus, scale, turn):
    """The spectrum [height, width], real, of a Morlet wavelet at the pixels of a torus.

    In the plane it is exp(-sigma^2 ((u - xi)^2 + v^2 / slant^2) / 2), u along the wave and v across
    it, less a Gaussian that makes its mean 0. Pixels add up the frequencies that they confuse.
    """
    angle, sigma, xi = math.pi * turn / _ANGLES, scale * _WIDTH, _FREQUENCY / scale
    period = 2 * math.pi
    y, x = (
        np.add.outer(period * np.arange(-3, 4), period * np.fft.fftfreq(n)).ravel() for n in torus
    )
    u = np.add.outer(math.sin(angle) * y, math.cos(angle) * x)
    v = np.add.outer(math.cos(angle) * y, -math.sin(angle) * x)

    def bump(centre):
        plane = np.exp(-(sigma**2) * ((u - centre) ** 2 + (v / _SLANT) ** 2) / 2)
        return plane.reshape(7, torus[0], 7, torus[1]).sum(axis=(0, 2))

    wave, gauss = bump(xi), bump(0.0)
    return wave - wave[0, 0] / gauss[0, 0] * gauss
