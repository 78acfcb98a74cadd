"""Readings of the paper's two accountants: how its text becomes a sigma.

No reading gives all four sigmas that the paper quotes at epsilon = 1. These are the literal one and
those around the one that comes nearest.
"""

import dataclasses
import math

from trainers.ermis import published as paper
from trainers.ermis.claimed import step_budget


@dataclasses.dataclass(frozen=True)
class Reading:
    """How a sigma follows from one update's (epsilon_i, delta_i), and these from the total.

    The `root` of the Gaussian theorem covers the "numerator", as in the theorem,
    sqrt(2 log(1.25 / delta_i)) / epsilon_i, or, as the paper prints it, the "ratio",
    sqrt(2 log(1.25 / delta_i) / epsilon_i).
    """

    name: str
    root: str = "numerator"
    factor: float = 1.0  # sigma over that: 1/2 if the 2 of the sensitivity 2C went into it
    composition_share: float = 0.5  # of advanced composition, delta' / delta
    step_delta: float | None = None  # of zCDP, one update's delta_i; None for delta / q

    def sigma(self, accountant, epsilon, sampling_rate, updates, delta=paper.DELTA):
        """The noise that the reading asks for, over the sensitivity as it takes that.

        The accountant is "ac" or "zcdp", and epsilon finite.
        """
        of_step = self.composition_share if accountant == "ac" else self.step_delta
        settings = (accountant, epsilon, delta, sampling_rate, updates, of_step)
        step, step_delta = step_budget(*settings)
        log_term = 2 * math.log(1.25 / step_delta)
        if self.root == "ratio":
            return self.factor * math.sqrt(log_term / step)
        return self.factor * math.sqrt(log_term) / step


LITERAL = Reading("theorems as stated")
NEAREST = Reading("root over the ratio, half", "ratio", 0.5, 0.38, 1e-3)
READINGS = (
    LITERAL,
    Reading("root over the ratio", "ratio"),
    Reading("theorems as stated, half", factor=0.5),
    Reading("root over the ratio, half, default deltas", "ratio", 0.5),
    NEAREST,
)


def quoted_settings(dataset):
    """Returns the sampling rate and the number of updates that the paper accounts with."""
    rate, passes = paper.SAMPLING[dataset]
    return rate, round(passes / rate)


def sigmas(reading):
    """Dict from (data set, accountant) to the sigma by a reading, at epsilon = 1."""
    return {
        (dataset, accountant): reading.sigma(accountant, 1.0, *quoted_settings(dataset))
        for dataset, accountant in paper.SIGMAS
    }


def deviation(reading):
    """The largest relative difference of a reading from the four sigmas that are quoted."""
    found = sigmas(reading)
    return max(abs(found[key] / quoted - 1) for key, quoted in paper.SIGMAS.items())
