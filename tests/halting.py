"""A crash that leaves the process alive, at an update of one's choice."""

from tensorflow import keras


class Halt(Exception):
    """The crash."""


class HaltAfter(keras.callbacks.Callback):
    """Raises `Halt` as soon as so many updates were made."""

    def __init__(self, update):
        super().__init__()
        self._update = update

    def on_train_batch_end(self, batch, logs=None):
        if self.model.ledger.state.position == self._update:
            raise Halt
