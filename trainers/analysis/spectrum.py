"""Eigenvalues and trace of a matrix that is known by its products with vectors.

All functions take anything with `size` and `product`, as `Hessian` is. Products of float32 models
are exact to about `ROUNDOFF` of the largest eigenvalue, which no tolerance can better.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal

ROUNDOFF = 1e-6  # of products, relative to the largest eigenvalue


class Estimate(NamedTuple):
    """A number, how far off it may be, and how many products with vectors it took.

    It has `converged` if the tolerance was met.
    """

    value: float
    error: float
    converged: bool
    products: int


class RitzValues(NamedTuple):
    """The estimate of a spectrum from a number of Lanczos steps with one random vector.

    Attributes:
        values: [steps], ascending. The outer ones are close to eigenvalues, the inner ones stand
            for many.
        weights: [steps], sum 1: with a random start, the share of the eigenvalues that each stands
            for, in expectation (stochastic Lanczos quadrature).
        errors: [steps]: within so much of each there is an eigenvalue (Parlett 1980, Theorem
            4.5.1); at least what the roundoff of products leaves open.
    """

    values: np.ndarray
    weights: np.ndarray
    errors: np.ndarray

    @property
    def negative(self):
        """How many are negative: no more than eigenvalues are, if products are exact."""
        return int((self.values < 0).sum())

    @property
    def negative_share(self):
        """The estimated share of negative eigenvalues: chance, if most of them are nearly zero."""
        return float(self.weights[self.values < 0].sum())

    @property
    def condition_number(self):
        """The smallest absolute value over the largest: chance, if most are nearly zero; or NaN."""
        sizes = np.abs(self.values)
        return float(sizes.min() / sizes.max()) if sizes.any() else float("nan")


def power_iteration(matrix, tolerance=1e-3, max_iterations=1000, seed=0):
    """The eigenvalue of the largest absolute value, an `Estimate`.

    It ends when the eigenvalue changes by less than `tolerance`, relative to itself. Within the
    error, |H v - value v| for the last unit vector v, there is an eigenvalue. It may not be the
    largest one, if another is close to that. PyHessian (Yao, Gholami, Keutzer and Mahoney 2019),
    which Klause et al. (2022) used, does the same.
    """
    vector = _random_unit(matrix.size, np.random.default_rng(seed))
    value = np.inf
    for iteration in range(1, max_iterations + 1):
        product = matrix.product(vector)
        old, value = value, float(vector @ product)
        residual = float(np.linalg.norm(product - value * vector))
        error = max(residual, ROUNDOFF * abs(value))
        length = np.linalg.norm(product)
        converged = not length or abs(value - old) <= tolerance * abs(value)
        if converged or iteration == max_iterations:
            return Estimate(value, error, converged, iteration)
        vector = product / length


def trace(matrix, tolerance=1e-3, max_products=1000, min_products=10, seed=0):
    """The trace, by Hutchinson's (1990) estimator: the mean of v^T H v over random signs v.

    It ends when the standard error of the mean, which is the error of the `Estimate`, is less than
    `tolerance`, relative to the mean. `min_products` are needed for a standard error to be one.
    """
    rng, seen = np.random.default_rng(seed), []
    while len(seen) < max_products:
        signs = rng.choice([-1.0, 1.0], size=matrix.size)
        seen.append(float(signs @ matrix.product(signs)))
        mean = float(np.mean(seen))
        error = float(np.std(seen, ddof=1) / np.sqrt(len(seen))) if len(seen) > 1 else np.inf
        if len(seen) >= min_products and error <= tolerance * abs(mean):
            return Estimate(mean, error, True, len(seen))
    return Estimate(mean, error, False, len(seen))


def lanczos(matrix, steps=100, seed=0):
    """The Ritz values of a number of Lanczos steps, with vectors kept at right angles.

    As many vectors are held, in float32. There are fewer steps where the matrix has fewer different
    eigenvalues.
    """
    steps = min(steps, matrix.size)
    held = np.zeros([steps, matrix.size], np.float32)
    vector = _random_unit(matrix.size, np.random.default_rng(seed))
    diagonal, beside = [], []
    for step in range(steps):
        held[step] = vector
        rest = matrix.product(vector)
        diagonal.append(float(vector @ rest))
        so_far = held[: step + 1]
        for _ in range(2):  # twice is enough (Parlett 1980)
            rest -= (so_far @ rest.astype(np.float32)) @ so_far
        length = float(np.linalg.norm(rest))
        if step + 1 == steps or length <= ROUNDOFF * max(map(abs, diagonal)):
            break
        beside.append(length)
        vector = rest / length
    values, vectors = eigh_tridiagonal(diagonal, beside)
    errors = np.maximum(length * np.abs(vectors[-1]), ROUNDOFF * np.abs(values).max())
    return RitzValues(values, np.square(vectors[0]), errors)


def _random_unit(size, rng):
    vector = rng.normal(size=size)
    return vector / np.linalg.norm(vector)
