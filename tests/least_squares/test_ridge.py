"""The kernel that follows from what was released."""

import numpy as np
import pytest

from tfdpnorm.least_squares.ridge import directions_for, solved

rng = np.random.default_rng(0)


def test_without_noise_it_is_the_solution_of_least_squares():
    x, y = rng.normal(size=(40, 6)), rng.normal(size=(40, 2))
    x[:, 5] = x[:, 4]  # so that there is more than one
    kernel = solved(x.T @ x, x.T @ y, 0.0, 0.5)
    np.testing.assert_allclose(kernel, np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-10)


def test_the_ridge_is_a_factor_of_the_spectral_edge():
    gram, cross = np.diag([3.0, 2.0]), np.ones((2, 1))
    edge = 2 * 0.7 * np.sqrt(2)
    np.testing.assert_allclose(
        solved(gram, cross, 0.7, 0.5)[:, 0], 1 / (np.array([3.0, 2.0]) + 0.5 * edge)
    )


def test_negative_eigenvalues_count_as_zero():
    kernel = solved(np.diag([4.0, -100.0]), np.ones((2, 1)), 1.0, 1.0)
    assert kernel[1, 0] == pytest.approx(1 / (2 * np.sqrt(2)))


def test_noise_has_the_spectral_edge_that_is_said():
    noise = rng.normal(size=(300, 300)) / np.sqrt(2)
    largest = np.linalg.eigvalsh(noise + noise.T).max()  # of deviation 1 off the diagonal
    assert largest == pytest.approx(2 * np.sqrt(300), rel=0.05)


def test_directions_have_a_fifth_of_the_spectral_edge():
    for count, noise in ((60_000, 30.0), (1_437, 4.0)):
        d = directions_for(count, noise)
        assert count / d == pytest.approx(0.2 * 2 * noise * np.sqrt(d), rel=0.02)
    assert directions_for(1, 1e9) == 1
