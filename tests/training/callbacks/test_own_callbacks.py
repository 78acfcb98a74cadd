"""Callbacks of the user's own that end training early, or write weights."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.layers import VariationalDropoutDense
from tfdpnorm.privacy import privacy_statement
from tfdpnorm.training import PrivacyNoiseAsDropout

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


class Takes(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.kept = self.model.get_weights()

    def on_train_end(self, logs=None):
        self.model.set_weights(self.kept)


def test_who_ends_training_early(trained):
    stopped = trained(Stop()).ledger
    assert stopped.updates == 1 and "(Stop)" in stopped.state.sentences("held_to_plan")[0]
    assert stopped.epsilon() == stopped.epsilon(whole_plan=True)
    shown = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: None)
    epsilon = keras.callbacks.EarlyStopping(monitor="epsilon", mode="min", patience=0)
    for callbacks, updates in (((shown,), 8), ((epsilon,), 8), ((), 8)):
        ledger = trained(*callbacks).ledger
        assert ledger.updates == updates and not ledger.state.is_held_to_plan
    assert not trained(Stop(), epochs=None).ledger.state.sentences("no_guarantee")


WRITING = [
    "on_train_begin",
    "on_epoch_begin",
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_epoch_end",
    "on_train_end",
]


@pytest.mark.parametrize("when", WRITING)
def test_weights_that_callbacks_write_are_not_the_runs(trained, when):
    made = trained(Writes(when))
    text = privacy_statement(made.ledger)
    assert "the weights of this run were replaced" in text
    assert "Unconfirmed: where the weights come from" in made.privacy_statement().splitlines()[0]


ASKED = {
    "get_weights": ("on_train_batch_end", lambda private: private.get_weights()),
    "privacy_statement": ("on_epoch_begin", lambda private: private.privacy_statement()),
    "privacy_metadata": ("on_epoch_end", lambda private: private.privacy_metadata()),
    "refresh_public_statistics": ("on_train_end", lambda p: p.refresh_public_statistics()),
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_private_model_that_is_asked_vouches_for_none(trained, asked):
    assert _is_replaced(trained(Asks(*ASKED[asked]), epochs=1))


OTHER_HOOKS = ["on_test_begin", "on_test_batch_end", "on_test_end", "set_params"]


@pytest.mark.parametrize("when", OTHER_HOOKS)
def test_weights_that_callbacks_write_in_any_other_hook(trained, when):
    public = np.zeros((4, 3), np.float32), np.zeros(4)
    made = trained(
        Asks(when, lambda private: private.get_weights()),
        epochs=1,
        validation_data=public,
        validation_is_public=True,
    )
    assert _is_replaced(made)


def test_weights_that_a_schedule_of_the_rate_writes(trained):
    def schedule(epoch, rate):
        if epoch:
            kernel = written[0].model.trainable_variables[0]
            kernel.assign(kernel + 1)
        return rate

    written = [keras.callbacks.LearningRateScheduler(schedule)]
    assert _is_replaced(trained(*written))


def test_weights_that_a_callback_writes_before_it_fails(private):
    made = private(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]), steps=8)
    made.compile(keras.optimizers.SGD(0.1), LOSS)

    def fails(_):
        raise InterruptedError

    x, y = np.ones((40, 3), np.float32), np.arange(40) % 2
    with pytest.raises(InterruptedError):
        made.fit(x, y, epochs=1, callbacks=[Asks("on_epoch_end", fails)], verbose=0)
    assert _is_replaced(made)


def test_weights_of_the_run_that_a_callback_asks_for_are_known(trained):
    class Saves(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.kept = self.model.get_weights()
            self.model.set_weights(self.model.model.get_weights())

        def on_train_end(self, logs=None):
            self.model.set_weights(self.kept)

    assert not _is_replaced(trained(Saves(), epochs=1))


def _is_replaced(private):
    """Whether the ledger says that weights of the model that was trained were replaced."""
    private.check_weights()
    return private.ledger.state.has("foreign_weights")


def test_what_callbacks_of_this_library_write_is_the_runs(private):
    """One that writes a weight of a layer before each update, beside one of the user's own."""
    layer = VariationalDropoutDense(2, noise="public")
    made = private(keras.Sequential([keras.Input((3,)), layer]), steps=8)
    made.compile(keras.optimizers.SGD(0.1), LOSS)
    hooks = dict.fromkeys(("on_train_batch_begin", "on_train_batch_end"), _nothing)
    shown = keras.callbacks.LambdaCallback(**hooks)
    x, y = np.ones((40, 3), np.float32), np.arange(40) % 2
    for callbacks in ([shown, PrivacyNoiseAsDropout()], [PrivacyNoiseAsDropout(), shown]):
        made.fit(x, y, epochs=1, callbacks=callbacks, verbose=0)
    assert float(layer.noise_stddev) > 0
    assert not made.ledger.state.has("foreign_weights")


def _nothing(batch, logs=None):
    pass


def test_weights_that_callbacks_took_from_the_run_are_the_runs(trained):
    assert not trained(Takes()).ledger.state.has("foreign_weights")
    assert not trained().ledger.state.has("foreign_weights")
