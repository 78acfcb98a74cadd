"""What callbacks that are neither of Keras nor of this library do to a private training."""

from tensorflow import keras

from tfdpnorm.privacy.caveats import caveat

_KNOWN = ("keras.", "tf_keras.", "tfdpnorm.")


class OwnCallbacks:
    """Notices if callbacks of the user's own end training early or write weights.

    Whatever they looked at, the whole plan is charged for the first. The second is an intervention
    (see `Provenance`). Around what they do at each update, two passes over the weights are made.

        own = OwnCallbacks(private, callbacks)
        fit(callbacks=[*own.first, *callbacks, *own.last])
        own.check()

    Args:
        private: The `PrivateModel`.
        callbacks: List of those of `fit`.
    """

    def __init__(self, private, callbacks):
        self._private = private
        own = [c for c in callbacks if _is_own(c)]
        self._names = sorted({type(c).__name__ for c in own})
        before, after = self._before, self._after
        first = {"on_epoch_end": before, "on_train_end": before}
        last = {"on_epoch_begin": after, "on_epoch_end": after}
        for hook in ("on_train_batch_begin", "on_train_batch_end"):
            if any(_has(c, hook) for c in own):
                first[hook], last[hook] = self._before_update, self._after_update
        self.first = [keras.callbacks.LambdaCallback(**first)] if own else []
        self.last = [keras.callbacks.LambdaCallback(**last)] if own else []
        self._seen = None

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

    def _before_update(self, batch, logs=None):
        del batch, logs
        self._seen = self._private.session.provenance.digest()

    def _after_update(self, batch, logs=None):
        del batch, logs
        provenance = self._private.session.provenance
        if provenance.digest() != self._seen:
            provenance.check(replaced=True)


def _is_own(callback):
    is_known = type(callback).__module__.startswith(_KNOWN)
    return isinstance(callback, keras.callbacks.LambdaCallback) or not is_known


def _has(callback, hook):
    """Whether a callback does something at an update: Keras has two names for each hook."""
    hooks = (hook, hook.replace("train_", ""))
    return any(
        getattr(getattr(callback, x), "__func__", None) is not getattr(keras.callbacks.Callback, x)
        for x in hooks
    )
