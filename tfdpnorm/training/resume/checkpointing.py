"""The Keras side of a run that can be resumed: what is saved, and when."""

from tensorflow import keras

from tfdpnorm.keras_compat.optimizers import (
    make_optimizer_variables,
    optimizer_variables,
    rate_variables,
)

# What the callbacks of Keras remember from epoch to epoch.
_MEMORIES = {
    keras.callbacks.EarlyStopping: ("wait", "best", "best_epoch"),
    keras.callbacks.ReduceLROnPlateau: ("wait", "cooldown_counter", "best"),
    keras.callbacks.ModelCheckpoint: ("best",),
}


class Checkpointing(keras.callbacks.Callback):
    """Saves a private training to its `RunFolder`, and restores it.

    Saved are the weights, all variables that the optimizer keeps, the number of updates, the
    variables of every callback that has a method `training_state(model)`, which returns a list of
    them, what EarlyStopping, ReduceLROnPlateau and ModelCheckpoint compare with, and a description
    of optimizer, loss, model, augmentation and public batch, which a resumed run has to share.
    Not saved: the weights that EarlyStopping may restore, the state of other callbacks, and what
    random layers draw from. Updates that are repeated with these come out otherwise; they are
    counted again as far as the budget allows.

    Args:
        private: `PrivateModel`, compiled.
        folder: `RunFolder`.
        noise: `tfdpnorm.training.step.noise.GaussianNoise` of the model.
        callbacks: The other callbacks, which are called before this one.
        every: Save after at least so many updates; None: after every epoch.
        is_resumed: Whether the training that begins resumes that of the folder's checkpoint.
    """

    def __init__(self, private, folder, noise, callbacks=(), every=None, is_resumed=False):
        super().__init__()
        self._private, self._folder, self._noise = private, folder, noise
        self._callbacks, self._every, self._is_resumed = callbacks, every, is_resumed
        self._saved_at = None
        self._rates = []  # Those within the epoch that training begins in.

    def restore(self):
        """Restores what the folder's checkpoint holds, unless something is trained otherwise."""
        self._folder.check_training(self._private.training_settings())
        self._folder.restore(self._private.model, self._variables())
        self._saved_at = self._folder.checkpoint["updates"]

    def on_train_begin(self, logs=None):
        if self._is_resumed:
            # Here, since Keras' callbacks forget all when training begins.
            memories = self._folder.checkpoint["callbacks"]
            for callback, memory in zip(self._with_memory(), memories, strict=False):
                vars(callback).update(memory)
            if self.params.get("steps") and self._private.ledger.position % self.params["steps"]:
                self._rates = [rate.numpy() for rate in rate_variables(self._private.optimizer)]
        self._save()

    def on_epoch_begin(self, epoch, logs=None):
        # A scheduler, which is called before, has set the rate for this epoch already.
        if self._rates:
            rates = rate_variables(self._private.optimizer)
            for rate, value in zip(rates, self._rates, strict=True):
                rate.assign(value)
            self._rates = []

    def on_train_batch_end(self, batch, logs=None):
        if self._every and self._private.ledger.position - self._saved_at >= self._every:
            self._save()

    def on_epoch_end(self, epoch, logs=None):
        if not self._every or self._saved_at == self._private.ledger.position:
            self._saved_at = None  # The callbacks have acted since.
            self._save()

    def on_train_end(self, logs=None):
        if getattr(self._private.optimizer, "use_ema", False):
            self._saved_at = None  # Keras has put the averages in the place of the weights since.
        self._save()
        if self._private.ledger.remaining_updates < 1:
            self._folder.finish()

    def _save(self):
        if self._saved_at != self._private.ledger.position:
            memories = [_memory(callback) for callback in self._with_memory()]
            settings = self._private.training_settings()
            self._folder.save(self._private.model, self._variables(), memories, settings)
            self._saved_at = self._private.ledger.position

    def _variables(self):
        model, optimizer = self._private.model, self._private.optimizer
        make_optimizer_variables(optimizer, model.trainable_variables)
        states = [
            callback.training_state(self._private)
            for callback in self._callbacks
            if hasattr(callback, "training_state")
        ]
        return {
            "weights": list(model.weights),
            "optimizer": optimizer_variables(optimizer),
            "rates": rate_variables(optimizer),
            "updates": [self._noise.update_count, self._noise.release],
            "callbacks": [variable for state in states for variable in state],
        }

    def _with_memory(self):
        return [callback for callback in self._callbacks if isinstance(callback, tuple(_MEMORIES))]


def _memory(callback):
    names = next(names for cls, names in _MEMORIES.items() if isinstance(callback, cls))
    # As plain numbers, which JSON can hold.
    return {n: float(getattr(callback, n)) for n in names if hasattr(callback, n)}
