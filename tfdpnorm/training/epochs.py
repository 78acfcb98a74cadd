"""How far `PrivateModel.fit` goes: its epochs, their steps, and where in them it begins."""

import math
import warnings
from typing import NamedTuple

from tfdpnorm.errors import PrivacyWarning


class Epochs(NamedTuple):
    """The arguments of Keras' `fit` for the updates to come.

    Attributes:
        first_step: The step of the first epoch that training begins with.
        epochs: Number of the epoch to end before.
        steps_per_epoch: Updates of an epoch; None for as many as foreign data have.
    """

    initial_epoch: int
    first_step: int
    epochs: int
    steps_per_epoch: int | None


def epochs_to_train(
    ledger, start_within_epoch, *, epochs, steps_per_epoch, initial_epoch, sampled_here
):
    """Returns the `Epochs` of a call of `fit`; warns if it ends before the epochs asked for.

    Args:
        start_within_epoch: Method of `tfdpnorm.training.resume.resumption.Resumption`.
        initial_epoch: As in Keras; None if it was not given.
        sampled_here: Whether the batches are drawn by this library, so that an epoch has a length.
    """
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
    return Epochs(initial_epoch, first_step, epochs, steps_per_epoch)
