"""Noise on a grid: float32 with its fallback is float64 to the bit, and float64 is close to exact.

`LONG` is the long double of the machine (64 bits of precision on x86), as a reference.
"""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tests.each import each
from tfdpnorm.keras_compat.devices_and_precision import compiled
from tfdpnorm.noise.grid import (
    FURTHER_WORDS,
    NORMAL_ERROR,
    SAFE_RADII,
    float32_normals,
    float64_normals,
    grid_width,
    noised_on_grid,
)

LONG = np.longdouble
RARE = [0, -1, 1, -2, 2**31 - 1, -(2**31), 2**30 - 1, 2**30, -(2**30), -(2**30) - 1]


def random_words(rows, count, seed=0):
    words = np.random.default_rng(seed).integers(-(2**31), 2**31, (rows, count))
    return tf.constant(words, tf.int32)


def exact_normals(words, further):
    """Pairs of normal numbers in long double, and their radii."""
    words, further = words.numpy().astype(LONG), further.numpy().astype(LONG) % 2**32

    def fraction(parts):
        value = LONG(0.5)
        for part in parts[::-1]:
            value = (value + part) / 2**32
        return value

    w = np.where(words[0] < 0, -words[0] - 1, words[0])
    near_one = w > 2**30 - 0.5
    t = (np.where(near_one, 2**31 - 1 - w, w) + fraction(further[:4])) / 2**31
    radius = np.sqrt(-2 * np.where(near_one, np.log1p(-t), np.log(t)))
    angle = (words[1] + fraction(further[4:])) / 2**31 * 4 * np.arctan(LONG(1))
    return radius * np.cos(angle), radius * np.sin(angle), radius


@each("stddev", [1e-30, 0.7, 1.0, 1.99, 3e20, 1e30])
def test_the_grid_is_a_power_of_two_up_to_a_32nd(stddev):
    width = grid_width(stddev)
    assert np.frexp(width)[0] == 0.5
    assert 32 <= stddev / width < 64


@pytest.mark.parametrize("stddev, dtype", [(1.9999, tf.float32), (1.0, tf.float64)])
def test_it_is_float64_to_the_bit(stddev, dtype):
    """With sums from far below the grid to far beyond what float32 can do, and rare words."""
    pairs = 2**18
    rng = np.random.default_rng(1)
    sizes = rng.choice(
        [0, 1e-42, 1e-3, 1, 15, 1e3, 1e12], 2 * pairs, p=[0.1] * 2 + [0.2] * 3 + [0.1] * 2
    )
    sums = tf.constant(stddev * sizes * rng.normal(size=2 * pairs), dtype)
    words, more = random_words(2, pairs).numpy(), random_words(FURTHER_WORDS, pairs, 1)
    words[0, :1000] = np.resize(RARE, 1000)
    words[0, 1000 : pairs // 4] = (
        2**31 - 1 - rng.integers(0, 2**12, pairs // 4 - 1000)
    )  # tiny radii

    @tf.function  # as it is optimised
    def found(**how):
        further = lambda index: tf.gather(more, index, axis=1)  # noqa: E731
        return noised_on_grid(sums, stddev, tf.constant(words), further, **how)

    exact = found.python_function(all_in_float64=True)
    np.testing.assert_array_equal(found(all_in_float64=True), exact)
    np.testing.assert_array_equal(found(), exact)
    np.testing.assert_array_equal(found.python_function(), exact)
    assert found().dtype == dtype


def test_each_is_the_multiple_next_to_the_exact_sum():
    """Against long double, of sums that it holds."""
    pairs, stddev = 2**17, 1.3
    words, more = random_words(2, pairs, 2), random_words(FURTHER_WORDS, pairs, 3)
    words = tf.concat([tf.constant([RARE, RARE[::-1]], tf.int32), words[:, len(RARE) :]], axis=1)
    sums = np.random.default_rng(0).normal(size=2 * pairs)
    found = noised_on_grid(
        tf.constant(sums), stddev, words, lambda index: tf.gather(more, index, axis=1)
    )
    normals = np.concatenate(exact_normals(words, more)[:2])
    exact = (sums + LONG(stddev) * normals) / LONG(grid_width(stddev))
    np.testing.assert_array_equal(found.numpy() / grid_width(stddev), np.rint(exact))


def test_float64_functions_are_as_precise_as_assumed():
    """docs/exact_noise.md: the logarithms to 8 u of themselves, cosines and sines to 2 u of 1."""
    u, rng = 2.0**-53, np.random.default_rng(0)
    t = rng.uniform(0, 0.5, 2**18 + 3) * 2.0 ** -rng.integers(0, 101, 2**18 + 3)
    for logarithm, exact in (
        (tf.math.log(t), np.log(t.astype(LONG))),
        (tf.math.log1p(-t), np.log1p(-t.astype(LONG))),
    ):
        assert np.abs(logarithm.numpy() / exact - 1).max() < 8 * u
    angle = rng.uniform(-np.pi, np.pi, 2**18 + 3)
    for found, exact in ((tf.cos(angle), np.cos), (tf.sin(angle), np.sin)):
        assert np.abs(found.numpy() - exact(angle.astype(LONG))).max() < 2 * u


def test_float64_is_as_precise_as_the_argument_assumes():
    """docs/exact_noise.md: 2^-48 times the radius at most. At both ends of the radii too."""
    pairs = 2**17
    words, more = random_words(2, pairs, 4).numpy(), random_words(FURTHER_WORDS, pairs, 5).numpy()
    words[0, : 10 * 2**10] = np.repeat(RARE, 2**10)
    more[0, : 10 * 2**10 : 2] = 0
    more[1, : 10 * 2**10 : 4] = 0
    words, more = tf.constant(words), tf.constant(more)
    *exact, radius = exact_normals(words, more)
    for run in (float64_normals, tf.function(float64_normals)):  # as written, and as optimised
        for found, value in zip(run(words, more), exact, strict=True):
            assert (np.abs(found.numpy() - value) / radius).max() < 2.0**-50


def float32_errors(words, normals_of):
    """Largest errors of float32 radii within `SAFE_RADII`, and of cosines and sines.

    Whatever the further bits are: a word stands for all numbers within 1 of it.
    """
    tensor = tf.constant(words, tf.int32)
    _, _, radii = normals_of(tf.stack([tensor, tf.zeros_like(tensor)]))
    radii = radii.numpy().astype(np.float64)
    least, most = SAFE_RADII
    inside = (radii >= least) & (radii <= most)
    of_radii = 0.0
    for more in (-1, 1):
        uniform = np.minimum((np.abs(words[inside].astype(np.float64)) + more) * 2.0**-31, 1)
        small = -2 * np.log1p(uniform - 1)  # as precise near 1 as it is needed
        of_radii = max(of_radii, np.abs(np.sqrt(small) - radii[inside]).max(initial=0))
    one = tf.fill(tensor.shape, 2**30)  # a radius of 1.18
    cosines, sines, of_one = normals_of(tf.stack([one, tensor]))
    angles = words * (np.pi * 2.0**-31)
    found = np.stack([cosines, sines]).astype(np.float64) / float(of_one[0])
    of_angles = np.abs(found - [np.cos(angles), np.sin(angles)]).max() + np.pi * 2.0**-31
    return of_radii, of_angles


def assert_safe(words):
    """With a margin of 7 for other machines' kernels; 4 roundings of products come besides."""
    for normals_of in (tf.function(float32_normals), compiled(float32_normals)):  # as optimised
        of_radii, of_angles = float32_errors(words, normals_of)
        error = of_radii + SAFE_RADII[1] * (of_angles + 4 * 2.0**-24)
        assert 0 < of_radii and 0 < of_angles
        assert 7 * error < NORMAL_ERROR


def test_float32_is_within_its_bounds():
    words = np.random.default_rng(0).integers(-(2**31), 2**31, 2**19)
    assert_safe(np.concatenate([RARE, words, words >> 8, (words >> 12) - 2**31, words >> 16]))


def test_cells_have_their_probabilities():
    """Chi-square tests of the multiples themselves, and of their last bits, at two places."""
    pairs, stddev = 2**20, 1.0
    width = grid_width(stddev)
    for seed, place in enumerate((0.0, 0.37)):
        found = noised_on_grid(
            tf.fill([2 * pairs], np.float32(place * width)),
            stddev,
            random_words(2, pairs, 10 + seed),
            lambda index: random_words(FURTHER_WORDS, index.shape[0], 20),
        )
        cells = np.rint(found.numpy() / width).astype(int)
        np.testing.assert_array_equal(cells * width, found)
        edges = np.arange(-100, 101)
        observed = np.histogram(cells, [-np.inf, *(edges - 0.5), np.inf])[0]
        cdf = stats.norm.cdf((edges - 0.5 - place) * width / stddev)
        expected = np.diff([0, *cdf, 1]) * 2 * pairs
        assert stats.chisquare(observed, expected).pvalue > 1e-9
        assert stats.chisquare(np.bincount(cells % 8)).pvalue > 1e-9
