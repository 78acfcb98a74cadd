"""Additions to the accountant's delta: the events that its theorems leave out, in one place.

A guarantee whose delta they change noticeably is none: see `excess`.
"""

import math
import warnings

from tfdpnorm.errors import PrivacyError, PrivacyWarning
from tfdpnorm.privacy.floating_point import floating_point_loss
from tfdpnorm.privacy.rounding import ceil_text, delta_text
from tfdpnorm.privacy.slots import SHARE_OF_DELTA

# How many noisy numbers the figures are for: weights times updates, in a search of all trials.
GRID_NUMBERS = 1e11
# The largest share of delta that may be added to it.
MOST_ADDED = 0.1


def added_to_delta(ledger, epsilon):
    """Returns what is added to delta, by reason.

    A batch that does not fit is as likely for a person with several examples (docs/guarantee.md).
    What rounding adds grows with epsilon.

    Args:
        ledger: `PrivacyLedger`.
        epsilon: That of all phases, for an example or for a person with several; may be infinite.

    Returns:
        Dict from a reason in words to a probability; empty if nothing is added.
    """
    plan, added = ledger.plan, {}
    if plan.sampling_rate < 1:  # otherwise all batches are of N examples, and there are slots for N
        trials = 1 if ledger.state.search is None else ledger.state.search.expected_trials
        of_a_run = SHARE_OF_DELTA * plan.delta
        added["batches that do not fit into their slots"] = trials * of_a_run
    if ledger.settings.get("noise_grid"):
        added["noise rounded to a grid"] = rounding_loss(ledger, epsilon)[1]
    if plan.earlier:
        added["the earlier phases"] = sum(phase.added_delta for phase in plan.earlier)
    return added


def total(added):
    """Returns the sum of what is added, a probability."""
    return min(1.0, sum(added.values()))


def rounding_loss(ledger, epsilon):
    """Returns what noise on a grid adds to epsilon and to delta, a pair; see `added_to_delta`."""
    numbers = GRID_NUMBERS * (1 + len(ledger.plan.earlier))
    return floating_point_loss(numbers, epsilon, ledger.plan.delta)


def excess(ledger, epsilon):
    """Returns why no guarantee holds with that epsilon, if too much is added to delta, or None."""
    if math.isinf(epsilon):
        return None
    return too_much(total(added_to_delta(ledger, epsilon)), epsilon, ledger.plan.delta)


def too_much(added, epsilon, delta):
    """Returns why no guarantee holds where so much is added to delta, or None."""
    if added <= MOST_ADDED * delta:
        return None
    text = delta_text(delta)
    return (
        f"at epsilon = {ceil_text(epsilon)}, what rounding and large batches can add to delta = "
        f"{text} is {ceil_text(added, 2)}, more than a tenth of it, so that this delta does not "
        "hold"
    )


def added_to_phases(phases, epsilon, delta):
    """Returns what is added to the delta of several runs together, and `too_much` of it, a pair.

    Args:
        phases: List of `Phase`.
        epsilon: That of all of them composed; may be infinite.
        delta: Theirs together.
    """
    of_each = sum(phase.added_delta for phase in phases)
    of_all = floating_point_loss(GRID_NUMBERS * len(phases), epsilon, delta)[1]
    added = min(1.0, of_each + of_all)
    return added, None if math.isinf(epsilon) else too_much(added, epsilon, delta)


def check_plan(ledger):
    """Rejects a budget, and warns of noise, with which no guarantee would hold, as `excess` says.

    Args:
        ledger: `PrivacyLedger` of a run that has not begun.

    Raises:
        PrivacyError: with what to do.

    Warns:
        PrivacyWarning: if the noise was given, and not calibrated to a budget.
    """
    reason = excess(ledger, ledger.claimed_epsilon(whole_plan=True))
    if reason is None or not ledger.state.guarantee_holds:
        return
    said = f"No guarantee would hold: {reason}. Choose "
    if ledger.plan.epsilon_target is not None:
        trials = "" if ledger.state.search is None else ", or fewer expected trials"
        raise PrivacyError(f"{said}a smaller epsilon for the budget{trials}.")
    warnings.warn(f"{said}more noise, or fewer updates.", PrivacyWarning, stacklevel=3)
