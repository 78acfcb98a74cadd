"""Whether a private model can make another update."""

import os

from tfdpnorm.privacy import BudgetExhaustedError


def check_ready(ledger, *, process, is_compiled):
    """Refuses training that could not be accounted, or that the plan has no room for.

    Args:
        ledger: `PrivacyLedger` of the run.
        process: Number of the process that called `make_private`.
        is_compiled: Whether `compile` was called.

    Raises:
        RuntimeError: in another process, and before `compile`.
        BudgetExhaustedError: if no planned update is left.
    """
    if os.getpid() != process:
        raise RuntimeError(
            "Expected the process that called make_private(), got a fork of it: both would "
            "draw the same noise, and each count its own updates. Call make_private() in the "
            "process that trains."
        )
    state = ledger.state
    if state.remaining_updates < 1:
        ended = "a run that was ended, with " if state.is_finished else ""
        lost = f", {state.lost_updates} of them lost by crashes" if state.lost_updates else ""
        raise BudgetExhaustedError(
            f"Expected updates to be left, got {ended}{ledger.updates} spent of "
            f"{ledger.plan.steps} planned{lost}. Evaluate or save the model; a new plan on the "
            "same data adds to what it has already cost."
        )
    if not is_compiled:
        raise RuntimeError(
            "Expected a compiled model, got one without a loss. Call compile(optimizer=..., "
            "loss=...) before fit()."
        )
