"""Is released noise what it should be: Gaussian, of the stated size, and new in every update?

Canaries whose coin said "absent" are in no lot: their numbers in what an update releases are noise
and nothing else, which whoever tossed the coins can look at.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats


class NoiseTests(NamedTuple):
    """P-values of the hypothesis that the numbers are independent N(0, z^2).

    Attributes:
        size: Of the sum of squares, on both sides (chi-square).
        shape: Of the distribution, whatever its size (Kolmogorov and Smirnov, against N(0, s^2)
            with the numbers' own s, which makes it cautious).
        repeated: Of the largest correlation between two updates, for all pairs of them; 1 with one
            update.
    """

    size: float
    shape: float
    repeated: float

    @property
    def smallest(self):
        """The p-value of all three (Bonferroni)."""
        return min(1.0, 3 * min(self))


def noise_tests(noise, noise_multiplier):
    """Returns the `NoiseTests` of released noise.

    Args:
        noise: [T, m], numbers that updates released where no example was, in C.
        noise_multiplier: z, as claimed.
    """
    noise = np.asarray(noise, np.float64)
    updates, count = noise.shape
    squares = float((noise**2).sum()) / noise_multiplier**2
    freedom = stats.chi2(noise.size)
    size = min(1.0, 2 * min(freedom.sf(squares), freedom.cdf(squares)))
    shape = stats.kstest(noise.ravel() / noise.std(), "norm").pvalue
    repeated = 1.0
    if updates > 1:
        # Fisher's transformation: nearly normal for two independent series.
        pairs = np.triu_indices(updates, 1)
        largest = np.abs(np.corrcoef(noise)[pairs]).max()
        score = np.arctanh(min(largest, 1 - 1e-12)) * np.sqrt(count - 3)
        repeated = min(1.0, 2 * len(pairs[0]) * stats.norm.sf(score))
    return NoiseTests(float(size), float(shape), float(repeated))


def lot_size_p_value(sizes, num_examples, sampling_rate):
    """The p-value, on both sides, of lot sizes under Poisson sampling.

    Args:
        sizes: [T], how many examples each lot had.
        num_examples: N.
        sampling_rate: q, as claimed.
    """
    total, trials = int(np.sum(sizes)), num_examples * len(sizes)
    return float(stats.binomtest(total, trials, sampling_rate).pvalue)
