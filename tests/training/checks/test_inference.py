"""Inference changes no variable, by whatever path rows come to it."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.keras_compat.layers import said_or_by_default
from tfdpnorm.keras_compat.variables import raw

ROWS = slice(4, 36)


class Keeps(keras.layers.Layer):
    """Keeps the first row of larger batches in inference, and adds it in training.

    Args:
        how: "known" to Keras, or in a variable that is "hidden" from it.
        traced: Whether the call is a function that was traced by itself.
    """

    def __init__(self, how="known", traced=False):
        super().__init__()
        hidden = [] if how == "known" else {"kept": []}
        self.kept = self.add_weight(name="kept", shape=(5,), initializer="zeros", trainable=False)
        if how == "hidden":
            self.kept = None
            self._of = lambda: hidden["kept"][0]
            with tf.init_scope():
                hidden["kept"].append(tf.Variable(tf.zeros(5), trainable=False))
        else:
            self._of = lambda: raw(self.kept)
        self._keep = tf.function(self._assign) if traced else self._assign

    def _assign(self, x):
        tf.cond(tf.shape(x)[0] >= 20, lambda: self._of().assign(x[0]), lambda: self._of() + 0.0)

    def call(self, x, training=None):
        if training:
            return x + self._of()
        self._keep(x)
        return x


class Runs(keras.callbacks.Callback):
    def __init__(self, run):
        super().__init__()
        self.run = run

    def on_epoch_end(self, epoch, logs=None):
        self.run(self.model)


def paths(x, y):
    return {
        "evaluate": lambda private: private.evaluate(x, y, verbose=0),
        "predict": lambda private: private.predict(x, verbose=0),
        "test_on_batch": lambda private: private.test_on_batch(x, y),
        "predict_on_batch": lambda private: private.predict_on_batch(x),
    }


@pytest.fixture
def made(private, cross_entropy):
    """Returns a function that makes a private model with a layer, and the layer."""

    def make(*layers, **options):
        model = keras.Sequential([keras.Input((5,)), *layers, keras.layers.Dense(3)])
        trained = private(model)
        trained.compile("sgd", cross_entropy, **options)
        return trained

    return make


def refused(run):
    """Inference that is rejected."""

    def checked(private):
        with pytest.raises(ValueError, match="Inference changes a variable"):
            run(private)

    return checked


@pytest.mark.parametrize("how, traced", [("known", True), ("hidden", False)])
def test_a_layer_that_keeps_a_row_is_rejected(how, traced, made, data):
    """By every path; from a callback, too, where it ends `fit`."""
    layer = Keeps(how, traced)
    trained = made(layer)
    x, y = (part[ROWS] + 1 for part in data)
    runs = paths(x, y % 3)
    callbacks = [Runs(refused(run)) for run in runs.values()] + [Runs(runs["evaluate"])]
    with pytest.raises(ValueError, match="Inference changes a variable"):
        trained.fit(*data, callbacks=callbacks, epochs=1, steps_per_epoch=1, verbose=0)
    assert not layer._of().numpy().any()
    rows = tuple(part[ROWS] + shift for part, shift in zip(data, (1, 0), strict=True))
    with pytest.raises(ValueError, match="Inference changes a variable"):
        trained.fit(*data, validation_data=rows, epochs=1, steps_per_epoch=1, verbose=0)
    for run in runs.values():
        refused(run)(trained)
        assert not layer._of().numpy().any()


@each("training, traced", [(False, False), (None, True)])
def test_eager_calls_are_put_back(training, traced, made, data):
    layer = Keeps(traced=traced)
    trained = made(layer)
    before = trained.get_weights()
    with pytest.raises(ValueError, match="another value of '.*kept:0'"):
        trained(data[0], training=training)
    for one, other in zip(before, trained.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_eager_calls_that_fail_after_a_write_are_put_back(made, data):
    class Fails(keras.layers.Layer):
        fails = False

        def call(self, x):
            if self.fails:
                raise RuntimeError("after the write")
            return x

    failing = Fails()
    trained = made(keras.Sequential([Keeps(traced=False), failing]))
    before = trained.get_weights()
    failing.fails = True
    with pytest.raises(RuntimeError, match="after the write"):
        trained(data[0], training=False)
    for one, other in zip(before, trained.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_loss_or_a_metric_that_writes_elsewhere_is_rejected(made, private, data, cross_entropy):
    elsewhere = tf.Variable(0.0)
    network = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])

    def keeping(y, predictions):
        if not said_or_by_default(None):
            elsewhere.assign(predictions[0, 0])
        return tf.zeros_like(predictions[:, 0])

    trained = private(network)
    trained.compile("sgd", cross_entropy, metrics=[keeping])
    with pytest.raises(ValueError, match="Inference changes a variable"):
        trained.evaluate(*data, verbose=0)
    assert elsewhere.numpy() == 0
