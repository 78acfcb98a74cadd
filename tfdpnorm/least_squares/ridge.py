"""The solution of noisy least squares: post-processing, with public numbers alone."""

from __future__ import annotations

import math

import numpy as np


def solved(gram, cross, gram_noise, ridge):
    """Returns the kernel (A + lambda I)^-1 B, with A the noisy X'X without negative eigenvalues.

    The eigenvalues of a symmetric matrix of noise, of standard deviation tau = `gram_noise` off its
    diagonal, end at about 2 tau sqrt(d) (Wigner's semicircle): what is below it in A is hardly
    known. lambda is `ridge` times that. A is float64 [d, d], symmetric, and B [d, outputs]. Without
    noise, it is the solution of least norm.
    """
    values, vectors = np.linalg.eigh(gram)
    edge = 2 * gram_noise * math.sqrt(len(gram))
    values = np.maximum(values, 0.0) + ridge * edge
    known = values > len(gram) * np.finfo(np.float64).eps * values.max(initial=0.0)
    inverse = np.where(known, 1 / np.where(known, values, 1.0), 0.0)
    return vectors @ (inverse[:, np.newaxis] * (vectors.T @ cross))


def directions_for(num_examples: int, gram_noise: float) -> int:
    """Chooses how many whitened directions of the features to keep under noise.

    N rows of length 1 in d whitened directions have an X'X with a mean eigenvalue of N / d; the
    noise has its spectral edge at 2 tau sqrt(d). We take d where the former is a fifth of the
    latter, d = (N / (0.4 tau))^(2/3): a rule of thumb from the data sets of results/SEARCH.md.

    Args:
        num_examples: N >= 1.
        gram_noise: tau > 0, as in `solved`: z / sqrt(2 gram_share).

    Returns:
        d, an int >= 1.
    """
    return max(1, round((num_examples / (0.4 * gram_noise)) ** (2 / 3)))
