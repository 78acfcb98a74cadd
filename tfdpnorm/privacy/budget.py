"""The privacy budget: the (epsilon, delta) that a training run may spend."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tfdpnorm import arguments
from tfdpnorm.checked import Checked, field


@dataclass(frozen=True)
class PrivacyBudget(Checked):
    """A target for (epsilon, delta)-differential privacy (Dwork & Roth 2014, Definition 2.4).

    Adjacency is the same throughout this library: two data sets are neighbours if one of them has
    one example more.

    Attributes:
        epsilon: The privacy loss allowed, in nats, > 0. Infinity asks for training without noise,
            which carries no guarantee.
        delta: The probability left out of the guarantee, 0 < delta < 1. None for `usual_delta` of
            the planned number of examples, or of persons where they are the unit.

    Example::

        budget = tfdpnorm.PrivacyBudget(epsilon=3.0)

    Raises:
        ValueError: if `epsilon` is not > 0, `delta` is not strictly between 0 and 1, or one is NaN.
    """

    epsilon: float = field(
        arguments.positive,
        allow_inf=True,
        remedy="Give a positive number, such as 3.0. Only float('inf') trains without noise, and "
        "it has no guarantee.",
    )
    delta: float | None = field(
        arguments.open_unit,
        None,
        remedy="Give a probability of at most 0.1 / num_examples, or None to have one by rule.",
    )

    def of(self, num_examples: int) -> PrivacyBudget:
        """Returns this budget with a delta: its own, or `usual_delta(num_examples)`."""
        if self.delta is not None:
            return self
        return dataclasses.replace(self, delta=usual_delta(num_examples))


def usual_delta(num_examples: int) -> float:
    """The delta of a budget without one: the smaller of 1e-5 and 1 / (10 N).

    Publishing one random example outright satisfies delta = 1 / N; a tenth of that is the largest
    delta that is usually defended. N >= 1 is the planned number of examples, or of persons where
    they are the unit: a public constant.
    """
    return min(1e-5, 0.1 / num_examples)
