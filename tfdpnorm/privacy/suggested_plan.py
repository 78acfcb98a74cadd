"""Lot size and number of updates for a budget, by rule, from public numbers alone.

In the limit of many updates DP-SGD is a Gaussian mechanism of mu = q sqrt(T (exp(1/z^2) - 1)) (Bu,
Dong, Long & Su 2020), and what T updates learn is to be told from their noise by

    N q sqrt(T) / z  =  N mu / (z sqrt(exp(1/z^2) - 1)).

So the budget and N fix that, up to the last factor, which is 0.76 of its limit at z = 1, 0.94 at
z = 2 and 0.97 at z = 3: larger batches bring hardly more than those at which z is 3. That is how
large batches are here, as far as the time allows; what is left to choose is the number of updates.
"""

import math
from typing import NamedTuple

from scipy import special

from tfdpnorm import arguments
from tfdpnorm.privacy.budget import PrivacyBudget
from tfdpnorm.privacy.plan import PrivacyPlan
from tfdpnorm.privacy.planning import make_plan, updates_of_epochs

_NOISE_MULTIPLIER = 3.0
# q sqrt(T) / mu at that noise multiplier.
_PER_MU = 1 / math.sqrt(math.expm1(_NOISE_MULTIPLIER**-2))
_STEPS, _FEWEST_STEPS = 400, 100
# More epochs than these take long and bring little. Small data sets may have more of them.
_FEWEST_EPOCHS, _MOST_EPOCHS, _MOST_EXAMPLES = 4.0, 30.0, 2_000_000
_LARGEST_MU = 10.0

_GIVEN = "as given"
_LOTS = "larger batches hardly reduce the noise compared with the signal"


class SuggestedPlan(NamedTuple):
    """A `PrivacyPlan` by rule, and by the name of a setting the reason for it, a sentence."""

    plan: PrivacyPlan
    reasons: dict


def suggest_plan(
    *,
    budget,
    num_examples,
    epochs=None,
    steps=None,
    expected_batch_size=None,
    l2_norm_clip=1.0,
    most_per_person=None,
    unit=None,
):
    """Suggests a plan for a budget; what is given is kept.

        suggest_plan(budget=PrivacyBudget(3.0, 1e-5), num_examples=60_000).plan

    Args:
        budget: `PrivacyBudget`.
        num_examples: N >= 1; persons, where they are the unit.
        epochs: How often an example is drawn on average, > 0; not beside both others.
        steps: Number of updates >= 1.
        expected_batch_size: Expected batch size, > 0 and at most N.
        l2_norm_clip: C, a number > 0.
        most_per_person, unit: As in `PrivacyPlan`.

    Returns:
        A `SuggestedPlan`. The accountant is "pld".

    Raises:
        ValueError: if epochs, steps and expected_batch_size are all given, and as `make_plan` does.
    """
    arguments.instance(
        "budget", budget, PrivacyBudget, remedy="Write PrivacyBudget(epsilon=..., delta=...)."
    )
    num_examples = arguments.whole("num_examples", num_examples, at_least=1)
    budget = budget.of(num_examples)
    if None not in (epochs, steps, expected_batch_size):
        raise ValueError(
            f"Expected two of epochs, steps and expected_batch_size, got {epochs!r}, {steps!r} and "
            f"{expected_batch_size!r}. Leave one out: epochs = steps * expected_batch_size / N."
        )
    if epochs is not None:
        epochs = arguments.positive("epochs", epochs)
    if steps is not None:
        steps = arguments.updates("steps", steps, at_least=1)
    if expected_batch_size is not None:
        arguments.positive("expected_batch_size", expected_batch_size)
    mu = gaussian_mu(budget.epsilon, budget.delta)
    lot, steps, reasons = length_of(num_examples, mu, epochs, steps, expected_batch_size)
    plan = make_plan(
        num_examples=num_examples,
        expected_batch_size=lot,
        steps=steps,
        l2_norm_clip=l2_norm_clip,
        budget=budget,
        accountant="pld",
        most_per_person=most_per_person,
        unit=unit,
    )
    of_noise = f"the least for epsilon {budget.epsilon:g} at delta {budget.delta:g}"
    return SuggestedPlan(plan, {**reasons, "noise_multiplier": of_noise})


def length_of(num_examples, mu, epochs=None, steps=None, lot=None):
    """Returns expected batch size, updates, and reasons; arguments as of `suggest_plan`.

    `mu` is that of the Gaussian mechanism with the budget.
    """
    mu, most_epochs = min(mu, _LARGEST_MU), max(_MOST_EPOCHS, _MOST_EXAMPLES / num_examples)

    def usual_epochs(steps):
        return min(max(_PER_MU * mu * math.sqrt(steps), _FEWEST_EPOCHS), most_epochs)

    given = [n for n, v in (("steps", steps), ("expected_batch_size", lot)) if v is not None]
    of_steps = _GIVEN
    if steps is None and lot is not None:
        q = min(lot / num_examples, 1.0)
        if epochs is None:
            epochs = max((_PER_MU * mu) ** 2 / q, _FEWEST_STEPS * q, _FEWEST_EPOCHS)
            epochs = min(epochs, most_epochs)
        steps = updates_of_epochs(epochs, q)
        of_steps = f"{epochs:.3g} epochs of batches of this size"
    elif steps is None and epochs is None:
        steps, of_steps = _STEPS, "with more, the noise grows about as fast as the signal"
    elif steps is None:
        usual = usual_epochs(_STEPS)
        steps = max(_FEWEST_STEPS, round(_STEPS * epochs / usual))
        of_steps = f"for {epochs:g} epochs; {usual:.3g} are usual, in {_STEPS} updates"
    if lot is None:
        epochs = usual_epochs(steps) if epochs is None else epochs
        lot = min(max(1, round(epochs * num_examples / steps)), num_examples)
    reasons = {
        "steps": of_steps,
        "expected_batch_size": f"{steps * lot / num_examples:.3g} epochs; {_LOTS}",
        "accountant": "certifies the same epsilon with 5 to 25 % less noise than rdp",
    }
    return lot, steps, {**reasons, **dict.fromkeys(given, _GIVEN)}


def gaussian_mu(epsilon, delta):
    """The mu of the Gaussian mechanism that is exactly (epsilon, delta)-private, a float.

    delta = Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu) (Balle & Wang
    2018, Theorem 8).

    Args:
        epsilon: >= 0; infinite gives infinity.
        delta: 0 < delta < 1.
    """
    if math.isinf(epsilon):
        return math.inf
    low, high = 1e-12, 1e6
    for _ in range(200):
        mu = math.sqrt(low * high)
        low, high = (mu, high) if _delta_of(mu, epsilon) < delta else (low, mu)
    return low


def epsilon_of_mu(mu, delta):
    """The epsilon at delta of the Gaussian mechanism of mu: the inverse of `gaussian_mu`."""
    low, high = 0.0, mu * (mu / 2 + 40.0)  # delta is below exp(-40^2 / 2) there
    for _ in range(100):
        epsilon = (low + high) / 2
        low, high = (epsilon, high) if _delta_of(mu, epsilon) > delta else (low, epsilon)
    return high


def _delta_of(mu, epsilon):
    below = epsilon + special.log_ndtr(-mu / 2 - epsilon / mu)
    return special.ndtr(mu / 2 - epsilon / mu) - math.exp(min(below, 0.0))
