"""What callbacks that are neither of Keras nor of this library do to a private training."""

from tensorflow import keras

from tfdpnorm.privacy.caveats import caveat

_KNOWN = ("keras.", "tf_keras.", "tfdpnorm.")


class OwnCallbacks:
    """Notices if a user's own callbacks end training early or write weights.

    Whatever they looked at, the whole plan is charged for the first. The second is an intervention
    (see `Provenance`). Around what one does at each update, two passes over the weights are made.

        own = OwnCallbacks(private, callbacks)
        fit(callbacks=own.watched)
        own.check()

    Args:
        private: The `PrivateModel`.
        callbacks: List of those of `fit`.

    Attributes:
        watched: The same callbacks in their order, each one of the user's own between two others.
    """

    def __init__(self, private, callbacks):
        self._private, self._seen = private, None
        self._names = sorted({type(c).__name__ for c in callbacks if _is_own(c)})
        self.watched = []
        for each in callbacks:
            self.watched += self._around(each) if _is_own(each) else [each]

    def check(self):
        """Looks at the end of a training without an error."""
        ledger = self._private.ledger
        is_early = ledger.state.remaining_updates > 0 and not ledger.state.is_held_to_plan
        if self._names and self._private.stop_training and is_early:
            ledger.record(caveat("stopped_by_callback", callbacks=", ".join(self._names)))

    def _around(self, callback):
        before = dict.fromkeys(("on_epoch_end", "on_train_end"), self._note)
        after = dict.fromkeys(("on_epoch_begin", *before), self._check)
        for hook in ("on_train_batch_begin", "on_train_batch_end"):
            if _has(callback, hook):
                before[hook], after[hook] = self._before_update, self._after_update
        lambda_callback = keras.callbacks.LambdaCallback
        return [lambda_callback(**before), callback, lambda_callback(**after)]

    def _note(self, *_):
        self._private.session.provenance.note()

    def _check(self, *_):
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
