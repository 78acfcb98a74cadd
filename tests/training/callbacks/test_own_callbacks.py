"""Callbacks of the user's own that end training early, or write weights."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.privacy import privacy_statement

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@pytest.fixture
def trained(private):
    """Returns a function that trains for two of four epochs of four updates, with callbacks."""

    def train(*callbacks, epochs=2, **settings):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        made = private(model, steps=16)
        made.compile(keras.optimizers.SGD(0.1), LOSS, metrics=["accuracy"])
        x, y = np.ones((40, 3), np.float32), np.arange(40) % 2
        made.fit(x, y, epochs=epochs, callbacks=list(callbacks), verbose=0, **settings)
        return made

    return train


class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        del batch
        if logs["loss"] > 0:
            self.model.stop_training = True


class Writes(keras.callbacks.Callback):
    def __init__(self, when):
        super().__init__()
        setattr(self, when, self._write)

    def _write(self, *_, **__):
        kernel = self.model.trainable_variables[0]
        kernel.assign(kernel + 1)


class Asks(Writes):
    """Writes weights, and asks the private model for something in the same hook."""

    def __init__(self, when, ask):
        self._ask = ask
        super().__init__(when)

    def _write(self, *_, **__):
        super()._write()
        self._ask(self.model)


def test_who_ends_training_early(trained):
    stopped = trained(Stop()).ledger
    assert stopped.updates == 1 and "(Stop)" in stopped.state.sentences("held_to_plan")[0]
    assert stopped.epsilon() == stopped.epsilon(whole_plan=True)
    shown = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: None)
    epsilon = keras.callbacks.EarlyStopping(monitor="epsilon", mode="min", patience=0)
    for callback in (shown, epsilon):
        ledger = trained(callback).ledger
        assert ledger.updates == 8 and not ledger.state.is_held_to_plan


@pytest.mark.parametrize("when", ["on_train_begin", "on_train_batch_begin", "on_epoch_end"])
def test_weights_that_callbacks_write_are_not_the_runs(trained, when):
    made = trained(Writes(when), epochs=1)
    assert "the weights of this run were replaced" in privacy_statement(made.ledger)
    assert "Unconfirmed: where the weights come from" in made.privacy_statement().splitlines()[0]


@pytest.mark.parametrize(
    "when, ask",
    [
        ("on_train_batch_end", lambda private: private.get_weights()),
        ("on_test_batch_end", lambda private: private.privacy_statement()),
        ("on_train_end", lambda private: private.refresh_public_statistics()),
    ],
    ids=["get_weights", "statement", "refresh"],
)
def test_a_private_model_that_is_asked_vouches_for_none(trained, when, ask):
    public = np.zeros((4, 3), np.float32), np.zeros(4)
    settings = dict(epochs=1, validation_data=public, validation_is_public=True)
    assert _is_replaced(trained(Asks(when, ask), **settings))


def test_weights_that_a_callback_writes_before_it_fails(private):
    made = private(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]), steps=8)
    made.compile(keras.optimizers.SGD(0.1), LOSS)

    def fails(_):
        raise InterruptedError

    x, y = np.ones((40, 3), np.float32), np.arange(40) % 2
    with pytest.raises(InterruptedError):
        made.fit(x, y, epochs=1, callbacks=[Asks("on_epoch_end", fails)], verbose=0)
    assert _is_replaced(made)


def _is_replaced(private):
    """Whether the ledger says that weights of the model that was trained were replaced."""
    private.check_weights()
    return private.ledger.state.has("foreign_weights")
