"""The order in which an update and its entry in the ledger happen."""

import tensorflow as tf

from tfdpnorm.keras_compat.training import exchanged_steps_per_execution, steps_per_execution
from tfdpnorm.privacy.entries import Updates


def recorded_in_ledger(train_function, private, epsilon_metric):
    """Returns a training function whose updates all go through the ledger.

    First the step is traced and verified, then its updates are announced in the ledger, then they
    are made: their noise is drawn when they are spent. An execution that fails or is interrupted
    has spent all of them.

    Args:
        train_function: That of Keras: from an iterator of batches to logs; makes the updates of one
            execution.
        private: The `PrivateModel`.
        epsilon_metric: `Latest`, which shows the epsilon spent.
    """
    ledger = private.ledger

    def recorded(iterator):
        with private.lots_in_use.execution(iterator):
            # A model that is rejected here has spent nothing.
            private.row_checks.trace(train_function, iterator)
            # The plan may end within an execution of several steps.
            count = max(1, min(steps_per_execution(private), ledger.state.remaining_updates))
            ledger.record(Updates(count))
            epsilon_metric.show(ledger.epsilon())
            try:
                with exchanged_steps_per_execution(private, count):
                    return train_function(iterator)
            except BaseException:
                # Updates that were announced and not made leave no room for steps by hand.
                made = private.update_count
                made.assign(tf.maximum(made, ledger.updates))
                raise

    recorded.records_in_ledger = True
    return recorded
