"""Epsilon of releasing the best of a random number of private runs.

A search that trains many times and keeps the best model has used the data many times. If the number
of runs is drawn at random beforehand and kept secret, and nothing but the winner is released, the
winner costs little more than one run: two to three times its epsilon (Liu and Talwar 2019, Papernot
and Steinke 2022), where composing all runs costs their square root and more.
"""

import dataclasses
import math

import numpy as np

from tfdpnorm import arguments
from tfdpnorm.privacy.accountants import RDP_ORDERS, rdp_to_deltas

_MOST_HALVINGS = 200


@dataclasses.dataclass(frozen=True)
class NumberOfRuns:
    """The distribution of K, the number of runs of a search.

    Attributes:
        mean: E[K] >= 1, a float.
        shape: eta of the truncated negative binomial distribution: 1 for the geometric one, 0 for
            the logarithmic one, which has the longest tail; infinity for the Poisson distribution,
            which has the shortest. It may draw 0 runs, and then nothing is chosen.

    Reference:
        Papernot and Steinke (2022), "Hyperparameter tuning with Renyi differential privacy",
        Definition 1.
    """

    mean: float
    shape: float = math.inf

    def __post_init__(self):
        mean = arguments.positive("mean", self.mean)
        if mean < 1:
            raise ValueError(f"Expected mean to be at least 1 run, got {self.mean}.")
        if not (arguments.real("shape", self.shape) >= 0):
            raise ValueError(f"Expected shape to be 0 or more, or infinity, got {self.shape}.")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "shape", float(self.shape))

    @property
    def is_poisson(self):
        """Whether it is the Poisson distribution."""
        return math.isinf(self.shape)

    @property
    def gamma(self):
        """The parameter gamma in (0, 1] with this mean; None for the Poisson distribution."""
        if self.is_poisson:
            return None
        if self.mean == 1:
            return 1.0
        low, high = 0.0, 1.0  # their means are infinity and 1
        for _ in range(_MOST_HALVINGS):
            middle = math.sqrt(low * high) if low else high / 16
            if not low < middle < high:
                break
            if _mean_of(middle, self.shape) > self.mean:
                low = middle
            else:
                high = middle
        return low  # of the two, the one with more runs: epsilon falls with gamma

    def draw(self, rng):
        """Draws K, an int, by a `numpy.random.Generator`, whose state reveals it.

        It is at least 1; at least 0 for the Poisson distribution.
        """
        if self.is_poisson:
            return int(rng.poisson(self.mean))
        if self.mean == 1:
            return 1
        if self.shape == 0:
            return int(rng.logseries(1 - self.gamma))
        while True:
            drawn = int(rng.negative_binomial(self.shape, self.gamma))
            if drawn:
                return drawn


def selection_rdp(run_rdp, runs, orders=RDP_ORDERS):
    """The Renyi divergence bound of releasing the best of K runs, and nothing of the others.

    `run_rdp` [len(orders)] has the bounds of one run, its score included: if runs differ, the
    largest at each of `orders`, which ascend. `runs` is a `NumberOfRuns`.

    Reference:
        Papernot and Steinke (2022), Theorem 2 (truncated negative binomial), Theorem 6 (Poisson).
    """
    orders, run_rdp = np.asarray(orders, float), np.asarray(run_rdp, float)
    if orders.shape != run_rdp.shape or not (orders > 1).all():
        raise ValueError(
            f"Expected a bound for each of the orders above 1, got {run_rdp.shape} bounds and "
            f"{orders.shape} orders from {orders.min():g}."
        )
    if runs.is_poisson:
        at = [math.log1p(1 / (order - 1)) for order in orders]
        extra = runs.mean * rdp_to_deltas(run_rdp, at, orders)
    else:
        at_hat = (1 - 1 / orders) * run_rdp - math.log(runs.gamma) / orders
        extra = (1 + runs.shape) * at_hat.min()
    found = run_rdp + extra + math.log(runs.mean) / (orders - 1)
    # A Renyi divergence never falls with its order.
    return np.minimum.accumulate(found[::-1])[::-1]


def _mean_of(gamma, shape):
    """E[K] of the truncated negative binomial distribution."""
    if shape == 0:
        return (1 - 1 / gamma) / math.log(gamma)
    return shape * (1 - gamma) / gamma / -math.expm1(shape * math.log(gamma))
