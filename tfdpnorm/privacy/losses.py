"""Privacy losses on a grid, and their composition: what a PLD of dp_accounting is, in arrays.

dp_accounting's own classes add up a grid number by number, which takes seconds for large losses.
"""

import dataclasses
import math

import numpy as np
from dp_accounting.pld import common
from scipy import signal

# The probability in the tails that a composition may leave out, and counts as infinite losses.
_TAIL = 1e-15


@dataclasses.dataclass(frozen=True)
class Losses:
    """The distribution of a privacy loss.

    Attributes:
        interval: Of the grid, in nats.
        first: The smallest loss, in intervals, an int.
        masses: [n] probabilities of the losses (first + i) interval.
        infinite: Probability of an infinite loss.
    """

    interval: float
    first: int
    masses: np.ndarray
    infinite: float

    def repeated(self, times):
        """The loss of so many such mechanisms, >= 1, composed: `Losses`."""
        if times == 1:
            return self
        offset, masses = common.self_convolve(self.masses, times, _TAIL)
        infinite = _TAIL - math.expm1(times * math.log1p(-min(self.infinite, 1 - 1e-16)))
        return Losses(self.interval, times * self.first + offset, np.array(masses), infinite)

    def composed(self, other):
        """The loss of this mechanism and another, whose grid has the same interval: `Losses`."""
        masses = signal.fftconvolve(self.masses, other.masses)
        infinite = self.infinite + other.infinite
        return Losses(self.interval, self.first + other.first, masses, infinite)

    def deltas(self, epsilons):
        """The least delta at each of `epsilons` [n] in [0, 700], an array [n]."""
        start = max(0, -self.first)  # Negative losses are above no such epsilon.
        masses = self.masses[start:]
        losses = (self.first + start + np.arange(len(masses))) * self.interval
        above = _sums_of_tails(masses)
        discounted = _sums_of_tails(masses * np.exp(-losses))
        place = np.searchsorted(losses, epsilons, side="right")
        return self.infinite + above[place] - np.exp(epsilons) * discounted[place]


def _sums_of_tails(values):
    """[n + 1] sums from each position on."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)
