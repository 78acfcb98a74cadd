"""The order in which an update and its entries in the ledger happen."""

from tfdpnorm.keras_compat.fit_loop import exchanged_steps_per_execution, steps_per_execution


def recorded_in_ledger(train_function, private, noise, epsilon_metric):
    """Returns a training function whose updates all go through the ledger.

    They are entered before their noise is drawn, and what they released is entered before anybody
    has seen the weights: what is not in the ledger has not left the process.

    Args:
        train_function: That of Keras: from an iterator of lots to logs; makes the updates of one
            execution.
        private: The `PrivateModel`.
        noise: Its `GaussianNoise`.
        epsilon_metric: `Latest`, which shows the epsilon spent.
    """
    ledger = private.ledger

    def recorded(iterator):
        # Tracing proves per-example independence: what is refused is not an update.
        private.row_checks.trace(train_function, iterator)
        # The plan may end within an execution of several steps.
        count = max(1, min(steps_per_execution(private), ledger.remaining_updates))
        ledger.record_updates(count)
        epsilon_metric.latest.assign(ledger.epsilon())
        with exchanged_steps_per_execution(private, count):
            logs = train_function(iterator)
        ledger.record_made(int(noise.release.numpy()))
        return logs

    recorded.records_in_ledger = True
    return recorded
