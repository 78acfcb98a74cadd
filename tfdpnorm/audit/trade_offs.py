"""Trade-off curves: how often a test must raise a false alarm, by how often it is right.

An attacker tells neighbouring data sets apart by a test with some power (how often it says "with"
where the example is there) and some false positive rate (how often it says so where it is not). A
mechanism's trade-off curve is the least false positive rate at each power. It says more than one
pair (epsilon, delta), and an audit that knows which curve is claimed can rule out more.

Reference:
    Dong, Roth and Su (2022), "Gaussian differential privacy"; their f is the least false negative
    rate at each false positive rate, the same curve read along the other axis.
"""

import dataclasses
import functools
import math

import numpy as np
from dp_accounting.pld import PLDAccountant
from scipy import special

from tfdpnorm.privacy import epsilon_of
from tfdpnorm.privacy.accountants import coarse_epsilon, dp_sgd_event

# Lines that a curve is made of; fewer would be a looser curve and never a wrong one.
_LINES = 60
_LAST_DELTA, _LAST_EPSILON = 1e-9, 300.0
# Of the privacy loss, in units of the last epsilon over the root of the updates. Coarser is looser,
# and never wrong.
_INTERVAL = 0.005


@dataclasses.dataclass(frozen=True)
class Gaussian:
    """The curve of one number, N(mu, 1) with the example and N(0, 1) without: mu-GDP.

    mu >= 0 is sqrt(T) / z for T updates on the whole data set with noise multiplier z.
    """

    mu: float

    def least_false_positives(self, power):
        """The least false positive rate of a test of this power, both from 0 to 1."""
        return special.ndtr(special.ndtri(power) - self.mu)


class Lines:
    """The curve that bounds `deltas` on delta(epsilon) at several `epsilons` >= 0 imply.

    Each says, in both directions: false positives >= e^-epsilon (power - delta), and, by exchanging
    the two data sets, 1 - power >= e^-epsilon (1 - false positives - delta).

    Reference:
        Kairouz, Oh and Viswanath (2015), Theorem 2.1, for one pair.
    """

    def __init__(self, epsilons, deltas):
        epsilons, deltas = np.asarray(epsilons, np.float64), np.asarray(deltas, np.float64)
        self._slopes = np.concatenate([np.exp(-epsilons), np.exp(epsilons)])
        self._starts = np.concatenate([-np.exp(-epsilons) * deltas, 1 - deltas - np.exp(epsilons)])

    def least_false_positives(self, power):
        """The least false positive rate of a test of this power, both from 0 to 1."""
        return max(0.0, float((self._slopes * power + self._starts).max()))


@dataclasses.dataclass(frozen=True)
class DPSGDFamily:
    """The curves of DP-SGD at a sampling rate and a number of updates: one for each noise.

    An audit by these rules out noise multipliers: so much noise, or more, does not explain what was
    seen. Its epsilon, at `delta`, is that of the noise multiplier. This is sharper than (epsilon,
    delta) alone, and says nothing of mechanisms whose curve is none of these.
    """

    sampling_rate: float
    updates: int
    delta: float

    def curve(self, leak):
        """The curve of the noise multiplier z = 1 / `leak`, `leak` > 0.

        Between the lines that it is made of it lies lower than the true one, which costs sharpness.
        """
        if self.sampling_rate == 1:
            return Gaussian(math.sqrt(self.updates) * leak)
        return _subsampled_curve(self.sampling_rate, self.updates, leak)

    def epsilon(self, leak):
        """The epsilon of that noise multiplier, by the "pld" accountant."""
        event = dp_sgd_event(self.sampling_rate, 1 / leak, self.updates)
        return epsilon_of(event, self.delta, "pld")


@functools.lru_cache(maxsize=512)
def _subsampled_curve(sampling_rate, updates, leak):
    event = dp_sgd_event(sampling_rate, 1 / leak, updates)
    largest = max(coarse_epsilon(event, _LAST_DELTA), 1e-3)
    interval = _INTERVAL * largest / math.sqrt(updates)
    accountant = PLDAccountant(value_discretization_interval=interval).compose(event)
    # Close together where the curve bends: at small epsilons.
    epsilons = min(largest, _LAST_EPSILON) * np.linspace(0, 1, _LINES) ** 2
    return Lines(epsilons, [accountant.get_delta(e) for e in epsilons])
