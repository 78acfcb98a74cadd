"""The share and the kernel that follow from public numbers."""

import numpy as np
import pytest

from tests.each import each
from tfdpnorm.least_squares.ridge import directions_for, gram_share_for, solved


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def wigner(size):
    """A symmetric matrix of noise, of deviation 1 off its diagonal."""
    noise = np.random.default_rng(1).normal(size=(size, size)) / np.sqrt(2)
    return noise + noise.T


def test_without_noise_it_is_the_solution_of_least_squares(rng):
    x, y = rng.normal(size=(40, 6)), rng.normal(size=(40, 2))
    x[:, 5] = x[:, 4]  # so that there is more than one
    kernel = solved(x.T @ x, x.T @ y, 0.0, 40)
    np.testing.assert_allclose(kernel, np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-10)


def test_with_little_noise_the_ridge_is_the_edge():
    gram, cross = np.diag([3e6, 2e6]), np.ones((2, 1))
    edge = 2 * 0.7 * np.sqrt(2)
    expected = 1 / (np.array([3e6, 2e6]) + edge)
    np.testing.assert_allclose(solved(gram, cross, 0.7, 5e6)[:, 0], expected, rtol=1e-9)


def test_what_is_hidden_by_noise_gives_class_means(rng):
    """In units of the mean eigenvalue, 100 / 50."""
    cross = rng.normal(size=(50, 3))
    kernel = solved(0.99 * 40.0 * wigner(50), cross, 41.0, 100)
    np.testing.assert_allclose(kernel, cross / 2, rtol=0.01)


def test_a_known_eigenvalue_is_divided_by(rng):
    """In class means the mean of all rows hides the rest."""
    mean, kernel = np.eye(50)[0], rng.normal(size=50)
    exact = 20 * np.eye(50) + 5_000 * np.outer(mean, mean)
    cross = (exact @ kernel)[:, np.newaxis]
    for gram_noise in (20.0, 60.0):
        found = solved(exact + gram_noise * wigner(50), cross, gram_noise, 6_000)
        assert 0.7 < found[0, 0] / kernel[0] < 1.3
        rest = found[1:, 0] / kernel[1:]
        ridge = 1 / (50 / 6_000 + 1 / (2 * gram_noise * np.sqrt(50)))
        assert np.median(rest) == pytest.approx(20 / ridge, rel=0.2)


@each("features, outputs, noise", [(30, 2, 3.7), (64, 10, 1.4), (7, 2, 0.5), (1280, 3, 3.7)])
def test_the_share_balances_both_noises(features, outputs, noise):
    """Among all shares, with the kernel that the docstring says."""
    count, shares = 1_000, np.linspace(1e-3, 1 - 1e-3, 5_000)
    edge = 2 * noise * np.sqrt(features)
    mean = count / features
    known = mean / (mean + 1 / (1 / mean + 1 / edge))
    square = 0.35**2 * features * known**2
    best = shares[np.argmin(outputs / (1 - shares) + square / (2 * shares))]
    assert gram_share_for(count, noise, features, outputs) == pytest.approx(best, abs=1e-3)


def test_the_share_without_noise():
    assert 0 < gram_share_for(10, 0.0, 4, 3) < 1


def test_noise_has_the_spectral_edge_that_is_said():
    largest = np.linalg.eigvalsh(wigner(300)).max()
    assert largest == pytest.approx(2 * np.sqrt(300), rel=0.05)


def test_directions_have_a_fifth_of_the_spectral_edge():
    for count, noise_multiplier in ((60_000, 30.0), (1_437, 4.0)):
        d = directions_for(count, noise_multiplier)
        edge = 2 * noise_multiplier / np.sqrt(2 / 3) * np.sqrt(d)
        assert count / d == pytest.approx(0.2 * edge, rel=0.02)
    assert directions_for(1, 1e9) == 1
