"""What is added to the accountant's delta: the events that its theorems leave out, in one place."""

from tfdpnorm.privacy.floating_point import floating_point_loss
from tfdpnorm.privacy.slots import SHARE_OF_DELTA

# The numbers of a run whose noise on a grid the figures are for, weights times updates.
GRID_NUMBERS = 1e11


def added_to_delta(ledger):
    """Returns what is added to delta, by reason.

    Args:
        ledger: `PrivacyLedger`.

    Returns:
        Dict from a reason in words to a probability; empty if nothing is added.
    """
    plan, added = ledger.plan, {}
    if plan.sampling_rate < 1:  # otherwise all batches are of N examples, and there are slots for N
        trials = 1 if ledger.state.search is None else ledger.state.search.expected_trials
        of_a_run = SHARE_OF_DELTA * plan.delta
        added["batches that do not fit into their slots (docs/guarantee.md)"] = trials * of_a_run
    if ledger.settings.get("noise_grid"):
        _, of_noise = floating_point_loss(GRID_NUMBERS, ledger.epsilon(), plan.delta)
        added["noise rounded to a grid (docs/exact_noise.md)"] = of_noise
    if plan.earlier:
        added["the earlier phases"] = sum(phase.added_delta for phase in plan.earlier)
    return added
