"""Scattering, against sums over the pixels of a torus, written from the formulas in the plane."""

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.independence import rows_apart
from tfdpnorm.layers import ScatteringFeatures

BORDER = 4


def mirrored(images):
    """[rows, channels, height, width]: zeros up to multiples of eight, four mirrored pixels."""
    missing = [-n % 8 for n in images.shape[1:3]]
    padded = np.pad(images, ((0, 0), *((n // 2, n - n // 2) for n in missing), (0, 0)))
    border = (BORDER, BORDER)
    return np.pad(padded, ((0, 0), border, border, (0, 0)), "reflect").transpose(0, 3, 1, 2)


def filters_at(y, x):
    """phi, and the 16 wavelets by scale and angle, at points of the plane [n] around 0."""
    gauss = np.exp(-(x**2 + y**2) / (2 * 1.6**2)) / (2 * math.pi * 1.6**2)
    wavelets = []
    for scale, turn in itertools.product((1, 2), range(8)):
        sigma, xi, angle = 0.8 * scale, 0.75 * math.pi / scale, math.pi * turn / 8
        u = x * math.cos(angle) + y * math.sin(angle)
        v = y * math.cos(angle) - x * math.sin(angle)
        envelope = np.exp(-(u**2 + 0.25 * v**2) / (2 * sigma**2)) / (4 * math.pi * sigma**2)
        wave = envelope * np.exp(1j * xi * u)
        wavelets.append(wave - wave.sum() / envelope.sum() * envelope)  # of mean 0
    return gauss, np.array(wavelets)


def on_torus(height, width):
    """The filters [17, height, width] at the shifts of a torus, which all turns around it hit."""
    y, x = (a.ravel() for a in np.mgrid[-5 * height : 5 * height, -5 * width : 5 * width])
    phi, wavelets = filters_at(y.astype(float), x.astype(float))
    filters = np.concatenate([phi[np.newaxis], wavelets])
    return filters.reshape(17, 10, height, 10, width).sum(axis=(1, 3))


def convolved(images, kernel, step=1):
    """Sum over all shifts: kernel(shift) times the images [..., height, width] moved by it."""
    total = np.zeros(images.shape, complex)
    height, width = kernel.shape
    for down, right in itertools.product(range(0, height, step), range(0, width, step)):
        moved = (down // step, right // step)
        total += kernel[down, right] * np.roll(images, moved, axis=(-2, -1))
    return total


def scattering(images):
    """[rows, height / 4, width / 4, 81 channels] in float64, from filters and sums alone."""
    x = mirrored(images.astype(np.float64))
    phi, *wavelets = on_torus(*x.shape[-2:])
    middle, half = slice(BORDER, -BORDER, 4), slice(BORDER // 2, -BORDER // 2, 2)
    maps = [x, *(abs(convolved(x, psi)) for psi in wavelets[:8])]
    found = [convolved(m, phi).real[..., middle, middle] for m in maps]
    for psi in wavelets[8:]:
        for m in maps:
            second = abs(convolved(m, psi))[..., ::2, ::2]
            found.append(convolved(second, phi / phi[::2, ::2].sum(), 2).real[..., half, half])
    rows, channels, height, width = found[0].shape
    stacked = np.stack(found, axis=2).transpose(0, 3, 4, 1, 2)
    return stacked.reshape(rows, height, width, channels * 81)


def test_against_sums_over_pixels(rng):
    images = rng.random((2, 7, 11, 2)).astype(np.float32)
    expected = scattering(images)
    assert expected.shape == (2, 2, 4, 162)
    layer = ScatteringFeatures()
    np.testing.assert_allclose(layer(images), expected, atol=2e-6)
    assert tuple(layer.compute_output_shape(images.shape)) == expected.shape
    exact = ScatteringFeatures(dtype="float64")(images.astype(np.float64))
    np.testing.assert_allclose(exact, expected, atol=1e-12)


def boards(side):
    """Images at which filters are largest: black and white squares, stripes, a point, white."""
    y, x = np.mgrid[:side, :side]
    point = (y == x) & (y == side // 2)
    made = [(x + y) % 2, x % 2, y // 2 % 2, (x + y) // 2 % 2, point, np.ones((side, side))]
    return np.stack(made).astype(np.float32)[..., np.newaxis]


def test_features_differ_by_at_most_what_images_do(rng):
    images = np.concatenate([boards(16), rng.standard_normal((4, 16, 16, 1), np.float32)])
    features = np.asarray(ScatteringFeatures()(images)).reshape(len(images), -1)
    pixels = mirrored(images).reshape(len(images), -1)
    energy = np.sum(features**2, axis=1)
    assert np.all(energy <= np.sum(pixels**2, axis=1) * (1 + 1e-6))
    for i, j in itertools.combinations(range(len(images)), 2):
        apart = np.linalg.norm(features[i] - features[j])
        assert apart <= np.linalg.norm(pixels[i] - pixels[j]) * (1 + 1e-6)


def test_shapes_types_and_files(rng, tmp_path):
    model = keras.Sequential([keras.Input((28, 28, 3)), ScatteringFeatures()])
    assert model.output_shape == (None, 8, 8, 243) and not model.weights
    assert ScatteringFeatures()(np.zeros((0, 32, 32, 1), np.float32)).shape == (0, 8, 8, 81)
    images = rng.integers(0, 256, (2, 28, 28, 3))
    expected = np.asarray(model(images.astype(np.float32)))
    np.testing.assert_array_equal(ScatteringFeatures()(images.astype(np.uint8)), expected)
    half = ScatteringFeatures(dtype="float16")(images / 255)
    assert half.dtype == tf.float16
    np.testing.assert_allclose(half, expected / 255, atol=2e-3)
    model.save(tmp_path / "m.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "m.keras")(images), expected)


@each("shape", [(5, 32, 1), (32, 5, 3), (None, 32, 1)])
def test_images_that_are_too_small(shape):
    with pytest.raises(ValueError, match="at least 6"):
        ScatteringFeatures().build((None, *shape))


def test_an_image_changes_no_other(rng):
    layer, count = ScatteringFeatures(), 3
    run = tf.function(layer.__call__, autograph=False)
    assert rows_apart(run, np.empty((count, 12, 12, 2), np.float32), count) == count
    images = rng.random((count, 12, 12, 2)).astype(np.float32)
    alone = [np.asarray(layer(images[i : i + 1])) for i in (0, 2)]
    images[1, 3, 4, 0] = np.nan
    found = np.asarray(layer(images))
    np.testing.assert_array_equal(found[[0, 2]], np.concatenate(alone))
    assert np.all(np.isnan(found[1, ..., :81])) and np.all(np.isfinite(found[1, ..., 81:]))
