"""Eigenvalues and traces against matrices that are known."""

import numpy as np
import pytest

from tests.each import each
from trainers.analysis.spectrum import lanczos, power_iteration, trace


class Known:
    """A symmetric matrix with given eigenvalues."""

    def __init__(self, eigenvalues, seed=0):
        self.eigenvalues = np.sort(eigenvalues)
        self.size, self.products = len(eigenvalues), 0
        rng = np.random.default_rng(seed)
        turned, _ = np.linalg.qr(rng.normal(size=(self.size, self.size)))
        self.dense = turned * self.eigenvalues @ turned.T

    def product(self, vector):
        self.products += 1
        return self.dense @ vector


@pytest.fixture
def matrix():
    """A few large eigenvalues, many near zero, some negative, as Hessians of networks have."""
    rng = np.random.default_rng(1)
    return Known(np.concatenate([[90.0, 40.0, 12.0], rng.normal(0, 0.3, 195), [-4.0, -7.0]]))


@each("products", [1, 2, 5, 40])
def test_an_eigenvalue_is_within_the_error_of_power_iteration(products):
    # Two large ones that are close: the value hardly changes long before it is one of them.
    matrix = Known(np.concatenate([[90.0, 89.0], np.linspace(-1, 1, 50)]))
    found = power_iteration(matrix, tolerance=1e-3, max_iterations=products, seed=2)
    assert np.abs(matrix.eigenvalues - found.value).min() <= found.error < np.inf
    assert found.error >= 1e-6 * found.value
    if found.converged:
        assert found.error > 0.1, "the last change is less, and no bound"


def test_a_matrix_of_zeros():
    zeros = Known(np.zeros(30))
    assert power_iteration(zeros).value == 0
    assert trace(zeros) == (0.0, 0.0, True, 10)
    found = lanczos(zeros, steps=5)
    assert found.values.tolist() == [0.0] and found.weights.tolist() == [1.0]
    assert found.errors.tolist() == [0.0]
    assert np.isnan(found.condition_number)


@each("seed", range(5))
def test_trace(matrix, seed):
    found = trace(matrix, tolerance=0.1, seed=seed)
    assert found.converged and found.error <= 0.1 * abs(found.value)
    assert abs(found.value - np.trace(matrix.dense)) < 5 * found.error


def test_lanczos_of_few_steps(matrix):
    shares, traces = [], []
    for seed in range(30):
        found = lanczos(matrix, steps=25, seed=seed)
        assert len(found.values) == 25 and np.all(np.diff(found.values) > 0)
        np.testing.assert_allclose(found.weights.sum(), 1)
        np.testing.assert_allclose(found.values[[0, -1]], [-7, 90], rtol=1e-3)
        assert found.negative <= (matrix.eigenvalues < 0).sum()
        shares.append(found.negative_share)
        traces.append(found.values @ found.weights * matrix.size)
    assert abs(np.mean(shares) - (matrix.eigenvalues < 0).mean()) < 0.05
    assert abs(np.mean(traces) - np.trace(matrix.dense)) < 5 * np.std(traces) / np.sqrt(30)


@each("steps", [1, 2, 6, 25])
def test_an_eigenvalue_is_within_the_error_of_each_ritz_value(matrix, steps):
    found = lanczos(matrix, steps=steps, seed=3)
    distances = np.abs(found.values[:, None] - matrix.eigenvalues).min(axis=1)
    assert np.all(distances <= found.errors + 1e-5 * 90) and found.errors.shape == (steps,)
    if steps == 25:
        assert np.all(found.errors[[0, -1]] < 1e-3) and found.errors.max() > 0.01
    if steps == 6:  # the bound is not far above what it bounds
        assert distances.max() > 0.01 * found.errors.max()
