"""The share of the noise and the kernel that follow from public numbers: nothing to choose.

N examples of length 1 in d columns have an X'X whose eigenvalues have the mean N / d. Noise of
standard deviation tau = z / sqrt(2 s) off its diagonal, s the share of X'X, has eigenvalues up to
about e = 2 tau sqrt(d) (Wigner's semicircle).

**Share.** To first order, noise moves the kernel W by (X'X + lambda)^-1 times that of X'Y, of the
power K b^2 / (1 - s) for K outputs, and times that of X'X through W, of |W|^2 / (2 s). Their sum is
least for s / (1 - s) = |W| / (b sqrt(2 K)). With a correlation R of predictions and targets, equal
eigenvalues, and lambda as below,

    |W| = R b sqrt(d) (r + 1) / (r + 2),    r = N / (2 z d^(3/2)) = (N / d) / e at s = 1/2.

**Eigenvalues.** Those above e are known, and v becomes sqrt(v^2 - e^2): the shrinkage that is best
in the Frobenius norm (Gavish and Donoho 2017). The others count as 0.

**Ridge.** It stands for what is not known: N / d where e hides all, e where N / d is above it, and
between them 1 / lambda = d / N + 1 / e. If no eigenvalue is known, W is proportional to X'Y: class
means. With no noise it is that of least squares.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import linalg

_CORRELATION = 0.35  # R; a third or three times that share costs a point or less


def gram_share_for(num_examples, noise_multiplier, features, outputs):
    """Returns s, the share of the privacy loss that X'X takes, between 0 and 1."""
    hidden = 2 * noise_multiplier * features**1.5
    known = (num_examples + hidden) / (num_examples + 2 * hidden)  # (r + 1) / (r + 2)
    odds = _CORRELATION * known * math.sqrt(features / (2 * outputs))
    return odds / (1 + odds)


def solved(gram, cross, gram_noise, num_examples):
    """Returns the kernel W, float64 [d, outputs], from X'X [d, d], symmetric, and X'Y [d, outputs].

    `gram_noise` is tau. Without noise, W is the solution of least norm.
    """
    edge = 2 * gram_noise * math.sqrt(len(gram))
    if not edge:
        return linalg.lstsq(gram, cross)[0]
    ridge = 1 / (len(gram) / num_examples + 1 / edge)
    values, vectors = linalg.eigh(gram, subset_by_value=(edge, np.inf))
    known = np.sqrt(values**2 - edge**2)
    inside = vectors.T @ cross
    rest = cross - vectors @ inside
    return rest / ridge + vectors @ (inside / (known + ridge)[:, np.newaxis])


def directions_for(num_examples: int, noise_multiplier: float) -> int:
    """Chooses how many whitened directions of the features to keep under noise.

    We take d where the mean eigenvalue N / d is a fifth of e, with a share of a third: a rule of
    thumb from the data sets of results/SEARCH.md.

    Args:
        num_examples: N >= 1.
        noise_multiplier: z > 0 of the release.

    Returns:
        d = (2.04 N / z)^(2/3), rounded, an int >= 1.
    """
    return max(1, round((2.04 * num_examples / noise_multiplier) ** (2 / 3)))
