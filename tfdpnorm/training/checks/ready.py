"""Whether a private model can make another update."""

import os

from tfdpnorm.privacy import BudgetExhaustedError


def check_ready(ledger, *, process, is_erased, is_compiled):
    """Refuses training that could not be accounted, or that the plan has no room for.

    Args:
        ledger: `PrivacyLedger` of the run.
        process: Number of the process that called `make_private`.
        is_erased: Whether the weights were erased.
        is_compiled: Whether `compile` was called.

    Raises:
        RuntimeError: in another process, for erased weights, and before `compile`.
        BudgetExhaustedError: if no planned update is left.
    """
    if os.getpid() != process:
        raise RuntimeError(
            "Expected the process that called make_private(), got a fork of it: both would "
            "draw the same noise, and each count its own updates. Call make_private() in the "
            "process that trains."
        )
    if is_erased:
        raise RuntimeError(
            "Expected a model with weights, got one whose weights were erased, since an "
            "interrupted update could not be entered in the ledger, or exceeded the budget. "
            "Repair the folder of the run, and resume it from its last checkpoint: "
            "make_private(..., resume=True)."
        )
    if ledger.is_finished or ledger.remaining_updates < 1:
        ended = "a run that finish() ended, with " if ledger.is_finished else ""
        again = ledger.recounted
        again = f", {again} of them repetitions that were counted again" if again else ""
        raise BudgetExhaustedError(
            f"Expected updates to be left, got {ended}{ledger.updates} made of "
            f"{ledger.plan.steps} planned{again}. Evaluate or save the model; a new plan on "
            "the same data adds to what it has already cost."
        )
    if not is_compiled:
        raise RuntimeError(
            "Expected a compiled model, got one without a loss. Call compile(optimizer=..., "
            "loss=...) before fit()."
        )
