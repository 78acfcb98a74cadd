"""The order in which an update and its entries in the ledger happen."""

import warnings
import weakref

from tfdpnorm.keras_compat.fit_loop import exchanged_steps_per_execution, steps_per_execution
from tfdpnorm.privacy import BudgetExhaustedError
from tfdpnorm.privacy.rounding import ceil_text

_WARNED = weakref.WeakSet()  # Ledgers.


def recorded_in_ledger(train_function, private, noise, epsilon_metric):
    """Returns a training function whose updates all go through the ledger.

    They are entered before their noise is drawn, and what they released is entered before anybody
    has seen the weights: what is not in the ledger has not left the process. Repeated updates that
    came out otherwise, and that the budget has no room to count again, are thrown away. An
    execution that fails or is interrupted leaves some of its updates in the weights, nobody knows
    which; that is entered too, before the error goes on.

    Args:
        train_function: That of Keras: from an iterator of lots to logs; makes the updates of one
            execution.
        private: The `PrivateModel`.
        noise: Its `GaussianNoise`.
        epsilon_metric: `Latest`, which shows the epsilon spent.
    """
    ledger = private.ledger

    def recorded(iterator):
        with private.lots_in_use.execution(iterator):
            # Tracing proves per-example independence: what is refused is not an update.
            private.row_checks.trace(train_function, iterator)
            # The plan may end within an execution of several steps.
            count = max(1, min(steps_per_execution(private), ledger.remaining_updates))
            try:
                ledger.record_updates(count)
                epsilon_metric.show(ledger.epsilon())
                with exchanged_steps_per_execution(private, count):
                    logs = train_function(iterator)
                before = ledger.updates
                _record_made(private, noise)
            except BaseException:
                settle_interrupted(private, noise)
                raise
            if ledger.updates > before:
                _warn_of_fewer_updates(ledger)
                epsilon_metric.show(ledger.epsilon())
                logs = {**logs, epsilon_metric.name: epsilon_metric.result()}
            return logs

    recorded.records_in_ledger = True
    return recorded


def settle_interrupted(private, noise):
    """Enters that announced updates were cut short, before anybody sees what they left.

    If that cannot be entered, or the budget cannot count it, the weights are erased: what no ledger
    knows must not leave the process. The file then says what it says of a process that was killed,
    which has shown nothing.

    Args:
        private: The `PrivateModel`.
        noise: Its `GaussianNoise`. It goes on after the updates that were announced: no lot and no
            noise of theirs is used again.

    Raises:
        OSError: if the entry cannot be written.
    """
    ledger = private.ledger
    try:
        if ledger.awaits_made and not private.is_erased:
            ledger.record_interrupted()
            noise.update_count.assign(ledger.position)
    except BudgetExhaustedError:
        private.erase()  # and the interrupt goes on
    except BaseException:
        private.erase()
        raise


def _record_made(private, noise):
    """Enters what the announced updates released.

    Throws away what the budget cannot count, or the file cannot be told of.
    """
    ledger = private.ledger
    try:
        ledger.record_made(int(noise.release.numpy()))
    except BudgetExhaustedError as error:
        private.discard()
        raise BudgetExhaustedError(
            f"{error} The weights are those of update {ledger.position} again, epsilon is "
            f"{ceil_text(ledger.epsilon())}, {ledger.updates} updates of {ledger.plan.steps} "
            "planned are counted. Evaluate or save the model."
        ) from None
    except OSError:
        # A shorter entry might fit yet, and count an update that a resumed run can repeat.
        private.erase()
        raise


def _warn_of_fewer_updates(ledger):
    """Says that repeated updates were counted again, and what that leaves; once a process."""
    if ledger in _WARNED:
        return
    _WARNED.add(ledger)
    warnings.warn(
        "Expected the updates after the checkpoint to come out as before the interruption, got "
        f"another result at update {ledger.position}: they are counted again. Of "
        f"{ledger.plan.steps} planned updates {ledger.updates} are counted now, "
        f"{ledger.recounted} of them for a second time, and {ledger.remaining_updates} are left. "
        f"Epsilon is {ceil_text(ledger.epsilon())} of {ceil_text(ledger.planned_epsilon)} planned; "
        "training stops there.",
        stacklevel=2,
    )
