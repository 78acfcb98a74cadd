"""Every training step is announced in the ledger, on batches that this library sampled."""

import contextlib

import tensorflow as tf

from tfdpnorm.keras_compat.graphs import as_written
from tfdpnorm.keras_compat.training import (
    exchanged_steps_per_execution,
    repeatable,
    steps_per_execution,
)
from tfdpnorm.privacy.entries import Updates


class BatchesInUse:
    """Tracks the batches of a `PrivateModel`'s updates; for other batches no guarantee holds.

    The accountant counts updates on Poisson-sampled batches, each used once. That is known only of
    the batches that `fit` prepares, read by the one iterator that Keras makes for them, and not of
    a training function or a training step that is called by hand. `void(code)` records the caveat
    that declares that no guarantee holds.
    """

    UNKNOWN, BY_HAND = "unknown_sampling", "step_by_hand"

    def __init__(self, void):
        self._void = void
        self._iterator = None
        self._are_given = False
        self.executes = False
        self.is_training = False

    @contextlib.contextmanager
    def of_fit(self):
        """Context of the training in `fit`, which itself records batches that are not ours."""
        self._iterator, self.is_training = None, True
        try:
            yield
        finally:
            self._iterator, self.is_training = None, False

    @contextlib.contextmanager
    def given(self):
        """Context of an update on rows that were given, also where a callback of `fit` makes it."""
        self._are_given = True
        try:
            yield
        finally:
            self._are_given = False

    @contextlib.contextmanager
    def execution(self, iterator):
        """Context of an execution of the training function, which reads batches."""
        if self.is_training and self._iterator is None and not self._are_given:
            self._iterator = iterator
        if self._are_given or self._iterator is not iterator:
            self._void(self.UNKNOWN)
        before, self.executes = self.executes, True
        try:
            yield
        finally:
            self.executes = before

    def check_counted(self, made, counted):
        """Invalidates the guarantee if more updates were made than the ledger announced."""
        if made > counted:
            self._void(self.BY_HAND)

    @as_written
    def check_step(self):
        """Invalidates the guarantee unless the present step is part of an execution."""
        if not self.executes:
            self._void(self.BY_HAND)


def announced_in_ledger(train_function, private, epsilon_metric):
    """Returns Keras' training function, iterator of batches -> logs, with updates in the ledger.

    First the step is traced and verified, then its updates are announced in the ledger, then they
    are made: their noise is drawn when they are spent. An execution that fails or is interrupted
    has spent all of them. `epsilon_metric` is a `Latest`.
    """
    ledger = private.ledger

    def recorded(iterator):
        with private.session.batches.execution(iterator):
            iterator = repeatable(iterator)
            # A model that is rejected here has spent nothing.
            private.independence_checks.trace(train_function, iterator)
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

    recorded.announces_updates = True
    return recorded
