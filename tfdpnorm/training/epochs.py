"""How far `PrivateModel.fit` goes: its epochs, their steps, and where in them it begins."""

import math
import warnings

from tfdpnorm.errors import PrivacyWarning


def epochs_to_train(ledger, start_within_epoch, arguments, *, sampled_here):
    """Returns the step of its first epoch that training begins with, and the arguments of Keras.

    Warns if training ends before the epochs asked for.

    Args:
        start_within_epoch: Method of `tfdpnorm.training.resume.resumption.Resumption`.
        arguments: Dict of those of `fit`. For what is None of `epochs` and `steps_per_epoch`, or
            missing of `initial_epoch`, the result has that of the updates to come.
        sampled_here: Whether the batches are drawn by this library, so that an epoch has a length.
    """
    epochs, steps_per_epoch = arguments["epochs"], arguments["steps_per_epoch"]
    initial_epoch = arguments.get("initial_epoch")
    first_step, left = 0, ledger.state.remaining_updates
    if sampled_here:
        if steps_per_epoch is None:
            steps_per_epoch = max(1, round(1 / ledger.plan.sampling_rate))
        # As it was in the run that is resumed, whose callbacks went by epochs.
        of_plan = min(steps_per_epoch, ledger.plan.steps)
        start = start_within_epoch(of_plan)
        if start is not None and initial_epoch is None:
            steps_per_epoch = of_plan
            initial_epoch, first_step = start
        else:
            steps_per_epoch = min(steps_per_epoch, left)
    initial_epoch = initial_epoch or 0
    possible = initial_epoch + math.ceil((first_step + left) / (steps_per_epoch or 1))
    if epochs is None:
        epochs = possible
    elif steps_per_epoch and epochs > possible:
        warnings.warn(
            f"Only {possible - initial_epoch} of epochs={epochs} can be trained: {left} updates "
            f"are left of {ledger.plan.steps} planned, and an epoch takes "
            f"{steps_per_epoch}. Training stops there.",
            PrivacyWarning,
            stacklevel=3,
        )
    elif epochs < initial_epoch + bool(first_step):
        warnings.warn(
            f"Nothing is trained: epochs={epochs} counts from the start of the run, which has "
            f"trained {initial_epoch} epochs. Give a larger number, or none for all {left} "
            "updates that are left.",
            PrivacyWarning,
            stacklevel=3,
        )
    found = {"initial_epoch": initial_epoch, "epochs": epochs, "steps_per_epoch": steps_per_epoch}
    return first_step, {**arguments, **found}
