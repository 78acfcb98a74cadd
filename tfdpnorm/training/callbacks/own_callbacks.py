"""What callbacks that are neither of Keras nor of this library do to a private training."""

from tensorflow import keras

from tfdpnorm.privacy.caveats import caveat

_KNOWN = ("keras.", "tf_keras.", "tfdpnorm.")
_HOOKS = (
    *("set_params", "set_model", "on_epoch_begin", "on_epoch_end"),
    *(f"on_{of}_{when}" for of in ("train", "test", "predict") for when in ("begin", "end")),
    *(f"on_{of}_batch_{when}" for of in ("train", "test", "predict") for when in ("begin", "end")),
)


class OwnCallbacks:
    """Notices if a user's own callbacks end training early or write weights.

    Whatever they looked at, the whole plan is charged for the first. The second is an intervention
    (see `Provenance`), whichever hook it is in.

        own = OwnCallbacks(private, callbacks)
        fit(callbacks=own.watched)
        own.check()

    `watched` are the same callbacks in their order, each one of the user's own between two others.
    """

    def __init__(self, private, callbacks):
        self._private = private
        self._names = sorted({type(c).__name__ for c in callbacks if _is_own(c)})
        self.watched = []
        for each in callbacks:
            runs_own_code = _is_own(each) or isinstance(each, keras.callbacks.LearningRateScheduler)
            self.watched += self._around(each) if runs_own_code else [each]

    def check(self):
        """Looks at the end of a training without an error."""
        ledger = self._private.ledger
        is_early = ledger.state.remaining_updates > 0 and not ledger.state.is_held_to_plan
        if self._names and self._private.stop_training and is_early:
            ledger.record(caveat("stopped_by_callback", callbacks=", ".join(self._names)))

    def _around(self, callback):
        provenance = self._private.session.provenance
        hooks = [hook for hook in _HOOKS if _has(callback, hook)]
        return [_At(hooks, provenance.watch), callback, _At(hooks, provenance.end_watch)]


class _At(keras.callbacks.Callback):
    """Calls a function of no arguments at some hooks."""

    def __init__(self, hooks, function):
        super().__init__()
        for hook in hooks:
            setattr(self, hook, lambda *_, **__: function())


def _is_own(callback):
    is_known = type(callback).__module__.startswith(_KNOWN)
    return isinstance(callback, keras.callbacks.LambdaCallback) or not is_known


def _has(callback, hook):
    """Whether a callback does something at a hook: Keras has two names for those of updates."""
    hooks = (hook, hook.replace("train_batch", "batch"))
    return any(
        getattr(getattr(callback, x), "__func__", None) is not getattr(keras.callbacks.Callback, x)
        for x in hooks
    )
