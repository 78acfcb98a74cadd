"""The order in which an update and its entries in the ledger happen."""

from tfdpnorm.keras_compat.fit_loop import exchanged_steps_per_execution, steps_per_execution


def recorded_in_ledger(train_function, private, noise, epsilon_metric):
    """Returns a training function whose updates all go through the ledger.

    They are entered before their noise is drawn, and what they released is entered before anybody
    has seen the weights: what is not in the ledger has not left the process. An execution that
    fails or is interrupted leaves some of its updates in the weights, nobody knows which; that is
    entered too, before the error goes on.

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
                epsilon_metric.latest.assign(ledger.epsilon())
                with exchanged_steps_per_execution(private, count):
                    logs = train_function(iterator)
                ledger.record_made(int(noise.release.numpy()))
            except BaseException:
                settle_interrupted(private, noise)
                raise
            return logs

    recorded.records_in_ledger = True
    return recorded


def settle_interrupted(private, noise):
    """Enters that announced updates were cut short, before anybody sees what they left.

    If that cannot be entered, the weights are erased: what no ledger knows must not leave the
    process. The file then says what it says of a process that was killed, which has shown nothing.

    Args:
        private: The `PrivateModel`.
        noise: Its `GaussianNoise`. It goes on after the updates that were announced: no lot and no
            noise of theirs is used again.

    Raises:
        OSError: if the entry cannot be written.
    """
    ledger = private.ledger
    try:
        if ledger.awaits_made:
            ledger.record_interrupted()
            noise.update_count.assign(ledger.position)
    except BaseException:
        private.erase()
        raise
