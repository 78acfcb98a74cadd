"""Models with training methods of their own."""

import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.training import make_private
from tfdpnorm.training.checks import models


def subclass(name):
    return type("Own", (keras.Model,), {name: lambda self, *_, **__: None})


def functional(cls=keras.Model):
    inputs = keras.Input((5,))
    return cls(inputs, keras.layers.Dense(3)(inputs))


@pytest.mark.parametrize("name", models._METHODS)
def test_are_rejected_in_one_line_that_names_the_method(name, private, monkeypatch):
    def no_ledger(*_, **__):
        raise AssertionError("a ledger was made")

    monkeypatch.setattr(sys.modules[make_private.__module__], "PrivacyLedger", no_ledger)
    with pytest.raises(ValueError, match=rf"^Own .* overrides .*{name}\(\), ") as caught:
        private(functional(subclass(name)))
    assert "\n" not in str(caught.value)


def test_own_steps_of_a_parent_or_an_instance_are_found(private):
    class Child(subclass("train_step")):
        pass

    with pytest.raises(ValueError, match=r"train_step\(\)"):
        private(functional(Child))
    model = functional()
    model.compute_loss = lambda x, y, y_pred, sample_weight: tf.reduce_mean(y_pred)
    with pytest.raises(ValueError, match=r"compute_loss\(\)"):
        private(model)


def test_the_remedy_helps(private, data):
    model = functional(subclass("train_step"))
    trained = private(keras.Model(model.inputs, model.outputs))
    trained.compile("sgd", "mse")
    trained.fit(data[0], data[0][:, :3], epochs=1, steps_per_epoch=1, verbose=0)
    assert trained.ledger.updates == 1


@pytest.mark.slow
def test_own_steps_of_inner_models_are_allowed(private, data):
    """Keras does not call them either."""
    inside = functional(subclass("train_step"))
    trained = private(keras.Sequential([keras.Input((5,)), inside]))
    before = inside.get_weights()
    trained.compile("sgd", "mse")
    trained.fit(data[0], data[0][:, :3], epochs=1, steps_per_epoch=1, verbose=0)
    assert trained.ledger.updates == 1
    assert not np.array_equal(inside.get_weights()[0], before[0])


@pytest.mark.parametrize("method", ["call", "build", "get_config", "save", "summary"])
def test_other_methods_are_free(method, private):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.head = keras.layers.Dense(3)

        def call(self, x):
            return self.head(x)

    setattr(Own, method, getattr(Own, method))
    assert private(Own()).ledger.guarantee_holds
