"""From the budget of a whole search to the noise of its trials, and what else one could do."""

import dataclasses
import math

from tfdpnorm import arguments
from tfdpnorm.privacy.budget import PrivacyBudget
from tfdpnorm.privacy.calibration import (
    calibrate_noise_multiplier,
    first_guess,
    noise_reaching,
)
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.privacy.search import SearchPlan

_ACCOUNTANT = "Renyi DP"  # The only one that knows what a choice costs.
_ROUNDS = 5  # Each brings several batch sizes nearer to the target that they reach together.


def calibrate_search(
    budget, *, num_examples, lots, expected_trials, shape=math.inf, score_is_private=True
):
    """The `SearchPlan` of a search that spends just about a budget, all of its trials together.

    Args:
        budget: `PrivacyBudget` with a finite epsilon, of the search.
        num_examples: N, the number of training examples.
        lots: Pairs (expected batch size, updates), all that a trial may have. Each gets a noise
            multiplier of its own, so that all cost about the same.
        expected_trials, shape: See `SearchPlan`.
        score_is_private: Whether trials are scored on validation examples to be protected. They get
            the same epsilon.
    """
    arguments.instance("budget", budget, PrivacyBudget)
    arguments.positive("the epsilon of a search", budget.epsilon)
    arguments.whole("num_examples", num_examples, at_least=1)
    for size, _ in lots:
        if not 0 < size <= num_examples:
            raise ValueError(
                f"Expected batches of more than 0 and at most num_examples={num_examples} "
                f"examples, got {size}. Leave it out of the search."
            )
    rates = [(size / num_examples, updates) for size, updates in dict.fromkeys(lots)]
    if not rates:
        raise ValueError("The search has no batches. Give the expected batch size and the updates.")

    def of(trials):
        return SearchPlan(expected_trials, shape, tuple(trials))

    def noise_for(rate, updates, target):
        def reached(noise):
            return of([(rate, noise, updates)]).epsilon(target.delta)

        # A trial costs the search about twice, or as often as trials are composed.
        share = math.sqrt(expected_trials) if shape is None else 2
        alone = PrivacyBudget(target.epsilon / share, target.delta)
        guess = _guess(alone, rate, updates)
        return noise_reaching(reached, target, rate, updates, _ACCOUNTANT, guess)

    target, found = budget, None
    for _ in range(_ROUNDS):
        found = of((rate, noise_for(rate, updates, target), updates) for rate, updates in rates)
        together = found.epsilon(budget.delta)
        if together <= budget.epsilon:
            break
        # Lots of different lengths are dearest at different orders, and cost more together.
        target = PrivacyBudget(0.999 * target.epsilon * budget.epsilon / together, budget.delta)
    else:
        raise ValueError(
            f"Expected noise with which batches of {len(rates)} kinds cost epsilon "
            f"{budget.epsilon:g} together, got {together:.4g}. Search over fewer of them."
        )
    if not score_is_private:
        return found

    def score_reached(noise):
        return dataclasses.replace(found, score_noise_multiplier=noise).score_epsilon(budget.delta)

    guess = _guess(PrivacyBudget(budget.epsilon / 2, budget.delta), 1.0, 1)
    noise = noise_reaching(score_reached, budget, 1.0, 1, _ACCOUNTANT, guess)
    return dataclasses.replace(found, score_noise_multiplier=noise)


def _guess(budget, rate, updates):
    """A noise multiplier to begin with: that of one run, if there is any."""
    try:
        return calibrate_noise_multiplier(budget, rate, updates)
    except ValueError:
        return first_guess(budget, rate, updates)


def describe_search(plan, budget):
    """Says what a search will cost, and what the same budget would give without it: several lines.

    Args:
        plan: `SearchPlan`.
        budget: Its `PrivacyBudget`.
    """
    delta = budget.delta
    alone = [calibrate_noise_multiplier(budget, rate, n, "pld") for rate, _, n in plan.trials]
    scored = "public validation examples, at no cost"
    if plan.score_noise_multiplier is not None:
        scored = (
            "private validation examples, whose count of correct answers gets noise of standard "
            f"deviation {plan.score_noise_multiplier:.4g}; their epsilon is "
            f"{ceil_text(plan.score_epsilon(delta))}"
        )
    lines = [
        f"Search: {plan.in_words}, delta = {delta:g}.",
        f"  epsilon of the search {ceil_text(plan.epsilon(delta))}, of one trial alone "
        f"{ceil_text(plan.trial_epsilon(delta))}, by Renyi DP; noise multiplier "
        f"{', '.join(f'{noise:.4g}' for _, noise, _ in plan.trials)}",
        f"  scored on {scored}",
        "  for the same budget, no search, or one on public data, by the accountant PLD: noise "
        f"multiplier {', '.join(f'{noise:.4g}' for noise in alone)}",
    ]
    if plan.shape == math.inf:
        chance = math.exp(-plan.expected_trials)
        lines.append(
            f"  with probability {chance:.2g} no trial is drawn, and the budget is spent anyhow"
        )
    return "\n".join(lines)
