"""The privacy budget: the (epsilon, delta) that a training run may spend."""

from __future__ import annotations

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
        delta: The probability left out of the guarantee, 0 < delta < 1. It should be at most 0.1 /
            num_examples: publishing one random example outright satisfies delta = 1 / num_examples.

    Example::

        budget = tfdpnorm.PrivacyBudget(epsilon=3.0, delta=1e-5)

    Raises:
        ValueError: if `epsilon` is not > 0, `delta` is not strictly between 0 and 1, or one is NaN.
    """

    epsilon: float = field(
        arguments.positive,
        allow_inf=True,
        remedy="Give a positive number, such as 3.0. Only float('inf') trains without noise, and "
        "it has no guarantee.",
    )
    delta: float = field(
        arguments.open_unit, remedy="Give a probability of at most 0.1 / num_examples."
    )
