"""Models with training methods of their own."""

import sys

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.training import make_private
from tfdpnorm.training.checks import models


def subclass(name):
    return type("Own", (keras.Model,), {name: lambda self, *_, **__: None})


def functional(cls=keras.Model):
    inputs = keras.Input((5,))
    return cls(inputs, keras.layers.Dense(3)(inputs))


@each("name", models._METHODS)
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
