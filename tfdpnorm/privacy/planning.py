"""Planning a run: noise for a budget, or the budget of a noise, after earlier phases or none."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import TYPE_CHECKING

from tfdpnorm import arguments
from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.privacy.accountants import accountant_of
from tfdpnorm.privacy.budget import PrivacyBudget
from tfdpnorm.privacy.calibration import noise_of_plan
from tfdpnorm.privacy.ledger import PrivacyLedger, read_ledger
from tfdpnorm.privacy.plan import PrivacyPlan

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence


def updates_of_epochs(epochs, sampling_rate):
    """How many updates draw each example `epochs` > 0 times on average, rounded up."""
    steps = arguments.positive("epochs", epochs) / sampling_rate
    # 21 epochs at rate 0.35 come out a hair above 60 in floating point, and are not 61 updates.
    return round(steps) if math.isclose(steps, round(steps), rel_tol=1e-9) else math.ceil(steps)


def make_plan(
    *,
    num_examples: int,
    expected_batch_size: float,
    l2_norm_clip: float,
    steps: int | None = None,
    epochs: float | None = None,
    budget: PrivacyBudget | None = None,
    noise_multiplier: float | None = None,
    delta: float | None = None,
    accountant: str = "rdp",
    no_guarantee_because: Sequence[str] = (),
    statistics_queries: int = 0,
    statistics_budget_share: float = 0.0,
    after: PrivacyLedger | str | os.PathLike | None = None,
    most_per_person: int | None = None,
    unit: str | None = None,
    most_per_batch: int | None = None,
) -> PrivacyPlan:
    """Makes a `PrivacyPlan` from either a budget or a noise multiplier.

    Args:
        num_examples: Number of private training examples, >= 1.
        expected_batch_size: Expected batch size, > 0 and at most `num_examples`.
        l2_norm_clip: Clipping norm, > 0; may be infinite only without noise.
        steps: Number of optimizer updates, >= 1.
        epochs: How often an example is drawn on average, > 0, instead of steps, which is
            epochs * num_examples / expected_batch_size, rounded up.
        budget: A `PrivacyBudget`; the noise is calibrated to it. An infinite epsilon means no
            noise. Without a delta, it has `usual_delta(num_examples)`.
        noise_multiplier: The noise instead, >= 0 and finite; needs `delta`.
        delta: Only with `noise_multiplier`; a budget brings its own.
        accountant: "rdp" or "pld".
        no_guarantee_because: Reasons, known before the run, why no guarantee holds; a tuple of
            sentences.
        statistics_queries: As in `PrivacyPlan`.
        statistics_budget_share: As in `PrivacyPlan`.
        after: `PrivacyLedger` of a run on the same data that has ended, or the path of its file:
            the plan is of a second phase, with noise, clipping norm and sampling rate of its own.
            The budget, and every epsilon, are then of all phases together.
        most_per_person: As in `PrivacyPlan`.
        unit: "person" or "row", as in `PrivacyPlan`. With "person", the default where
            `most_per_person` is given, `num_examples` and `expected_batch_size` count persons.
        most_per_batch: As in `PrivacyPlan`.

    Returns:
        The `PrivacyPlan`, with the calibrated noise multiplier.

    Raises:
        ValueError: if both or neither of `budget` and `noise_multiplier` are given, or of `steps`
            and `epochs`, `delta` is missing or superfluous, a value is outside of its range, the
            budget cannot be met, or "pld" cannot compute so small a delta.
        PrivacyError: if the phases before this one have spent the budget, or protect another unit.

    Warns:
        PrivacyWarning: if delta >= 1 / num_examples.

    Example::

        plan = tfdpnorm.make_plan(
            num_examples=60_000,
            expected_batch_size=1024,
            steps=1_000,
            l2_norm_clip=1.0,
            budget=tfdpnorm.PrivacyBudget(epsilon=3.0, delta=1e-6),
        )
        print(plan.noise_multiplier, plan.epsilon_after(500))
    """
    _check_amount(budget, noise_multiplier, delta)
    if (steps is None) == (epochs is None):
        got = "neither" if steps is None else "both"
        raise ValueError(f"Expected exactly one of steps and epochs, got {got}. Give one of them.")
    if steps is None:
        lots = arguments.whole("num_examples", num_examples, at_least=1) / arguments.positive(
            "expected_batch_size", expected_batch_size
        )
        steps = updates_of_epochs(epochs, 1 / lots)
    if budget is not None:
        budget = budget.of(arguments.whole("num_examples", num_examples, at_least=1))
    settings = {
        "num_examples": num_examples,
        "expected_batch_size": expected_batch_size,
        "steps": steps,
        "l2_norm_clip": l2_norm_clip,
        "delta": delta if budget is None else budget.delta,
        "accountant": accountant,
        "epsilon_target": None if budget is None else budget.epsilon,
        "no_guarantee_because": no_guarantee_because,
        "statistics_queries": statistics_queries,
        "statistics_budget_share": statistics_budget_share,
        "earlier": _phases(after),
        "most_per_person": most_per_person,
        "unit": unit,
        "most_per_batch": most_per_batch,
    }
    if budget is None:
        plan = PrivacyPlan(noise_multiplier=noise_multiplier, **settings)
    else:
        plan = _calibrated(settings, budget)
    if plan.noise_multiplier:
        accountant_of(plan.accountant).check(plan.delta, plan.steps)  # and not amid the training
    if plan.delta >= 1 / plan.num_examples:
        warnings.warn(
            f"delta={plan.delta:g} is not below 1 / num_examples={1 / plan.num_examples:g} "
            f"(num_examples={plan.num_examples}): such a guarantee allows publishing a whole "
            "example. Choose a delta of at most 0.1 / num_examples.",
            PrivacyWarning,
            stacklevel=2,
        )
    return plan


def _calibrated(settings, budget):
    """The `PrivacyPlan` of these settings with the noise for a budget.

    The limit on batches depends on the noise, and costs a little of the budget.
    """
    # All values are checked before, as the calibration would speak of a sampling rate that the
    # caller never gave. Any noise will do for that; no batch of N examples exceeds a limit of N.
    limit, noise = settings["most_per_batch"], 0.0 if math.isinf(budget.epsilon) else 1.0
    unlimited = {**settings, "most_per_batch": settings["num_examples"] if limit is None else limit}
    unlimited = PrivacyPlan(noise_multiplier=noise, **unlimited)
    noise = noise_of_plan(unlimited, budget)
    plan = PrivacyPlan(noise_multiplier=noise, **settings)
    if plan.most_per_batch == unlimited.most_per_batch:
        return plan
    return dataclasses.replace(plan, noise_multiplier=noise_of_plan(plan, budget, noise))


def _check_amount(budget, noise_multiplier, delta):
    """Rejects all but a budget, or a noise multiplier with its delta."""
    if (budget is None) == (noise_multiplier is None):
        got = "neither" if budget is None else "both"
        raise ValueError(
            f"Expected exactly one of budget and noise_multiplier, got {got}. Give "
            "budget=PrivacyBudget(epsilon=..., delta=...) to have the noise calibrated, or "
            "noise_multiplier=... with delta=... to choose it."
        )
    if budget is None:
        if delta is None:
            raise ValueError(
                f"Expected delta with noise_multiplier={noise_multiplier!r}, got None. "
                "Give a delta of at most 0.1 / num_examples."
            )
        return
    remedy = "Write PrivacyBudget(epsilon=..., delta=...)."
    arguments.instance("budget", budget, PrivacyBudget, remedy=remedy)
    if delta is not None:
        raise ValueError(
            f"Expected no delta in addition to a budget, got delta={delta!r} and {budget!r}. "
            "Remove delta; the budget's is used."
        )


def _phases(after):
    if after is None:
        return ()
    return (after if isinstance(after, PrivacyLedger) else read_ledger(after)).phases()
