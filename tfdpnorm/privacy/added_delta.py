"""Additions to the accountant's delta: the events that its theorems leave out, in one place."""

from tfdpnorm.privacy.floating_point import floating_point_loss
from tfdpnorm.privacy.slots import SHARE_OF_DELTA

# The numbers of a run whose noise on a grid the figures are for, weights times updates.
GRID_NUMBERS = 1e11


def added_to_delta(ledger, person_epsilon=None):
    """Returns what is added to delta, by reason.

    A batch that does not fit is as likely for a person with several examples (docs/guarantee.md).
    What rounding adds grows with epsilon, so for persons it is computed at theirs, for all phases.

    Args:
        ledger: `PrivacyLedger`.
        person_epsilon: For persons with several examples their epsilon; None for one example.

    Returns:
        Dict from a reason in words to a probability; empty if nothing is added.
    """
    plan, added = ledger.plan, {}
    if plan.sampling_rate < 1:  # otherwise all batches are of N examples, and there are slots for N
        trials = 1 if ledger.state.search is None else ledger.state.search.expected_trials
        of_a_run = SHARE_OF_DELTA * plan.delta
        added["batches that do not fit into their slots"] = trials * of_a_run
    if ledger.settings.get("noise_grid"):
        added["noise rounded to a grid"] = rounding_loss(ledger, person_epsilon)[1]
    if plan.earlier:
        added["the earlier phases"] = sum(phase.added_delta for phase in plan.earlier)
    return added


def rounding_loss(ledger, person_epsilon=None):
    """Returns what noise on a grid adds to epsilon and to delta, a pair; see `added_to_delta`."""
    if person_epsilon is None:
        return floating_point_loss(GRID_NUMBERS, ledger.epsilon(), ledger.plan.delta)
    numbers = GRID_NUMBERS * (1 + len(ledger.plan.earlier))
    return floating_point_loss(numbers, person_epsilon, ledger.plan.delta)
