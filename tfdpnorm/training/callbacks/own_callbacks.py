"""What callbacks that are neither of Keras nor of this library do to a private training."""

from tensorflow import keras

from tfdpnorm.privacy.caveats import caveat

_KNOWN = ("keras.", "tf_keras.", "tfdpnorm.")


class OwnCallbacks:
    """Notices if callbacks of the user's own end training early or write weights between epochs.

    Whatever they looked at, the whole plan is charged for the first. The second is an intervention
    (see `Provenance`). Weights that they write between the updates of an epoch are not noticed.

        own = OwnCallbacks(private, callbacks)
        fit(callbacks=[*own.first, *callbacks, *own.last])
        own.check()

    Args:
        private: The `PrivateModel`.
        callbacks: List of those of `fit`.
    """

    def __init__(self, private, callbacks):
        self._private = private
        self._names = sorted({type(c).__name__ for c in callbacks if _is_own(c)})
        before, after = self._before, self._after
        first = keras.callbacks.LambdaCallback(on_epoch_end=before, on_train_end=before)
        last = keras.callbacks.LambdaCallback(on_epoch_begin=after, on_epoch_end=after)
        self.first, self.last = ([first], [last]) if self._names else ([], [])

    def check(self):
        """Looks at the weights and at the end of a training without an error."""
        if not self._names:
            return
        self._private.session.provenance.check()
        ledger = self._private.ledger
        is_early = ledger.state.remaining_updates > 0 and not ledger.state.is_held_to_plan
        if self._private.stop_training and is_early:
            ledger.record(caveat("stopped_by_callback", callbacks=", ".join(self._names)))

    def _before(self, *_):
        self._private.session.provenance.note()

    def _after(self, *_):
        self._private.session.provenance.check()


def _is_own(callback):
    is_known = type(callback).__module__.startswith(_KNOWN)
    return isinstance(callback, keras.callbacks.LambdaCallback) or not is_known
