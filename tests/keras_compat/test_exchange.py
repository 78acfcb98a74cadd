"""Attributes and methods that are others for the time of a call, and as before afterwards."""

import inspect

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.exchange import exchanged, exchanged_method

X = np.ones([2, 3], np.float32)


def built_dense():
    layer = keras.layers.Dense(4, activation="relu")
    layer.build((None, 3))
    return layer


@pytest.mark.parametrize("fails", [False, True])
def test_an_attribute_is_exchanged_and_put_back(fails):
    layer = built_dense()
    own, activation = layer.kernel, layer.activation
    kernel = tf.zeros([3, 4])
    try:
        with exchanged(layer, activation=keras.activations.linear, kernel=kernel):
            assert layer.activation is keras.activations.linear and layer.kernel is kernel
            # Keras' account of the weights does not notice.
            assert len(layer.weights) == 2 and layer.weights[0] is own
            np.testing.assert_array_equal(layer(X), np.zeros([2, 4]))
            if fails:
                raise RuntimeError("halfway")
    except RuntimeError:
        assert fails
    assert layer.activation is activation and layer.kernel is own
    assert [id(w) for w in layer.weights] == [id(own), id(layer.bias)]


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_not_there_is_deleted_again(fails):
    layer = built_dense()
    try:
        with exchanged(layer, call=lambda x: x, extra=3):
            assert layer.call(7) == 7 and layer.extra == 3
            if fails:
                raise RuntimeError("halfway")
    except RuntimeError:
        assert fails
    assert "call" not in vars(layer) and not hasattr(layer, "extra")
    assert layer.call.__func__ is keras.layers.Dense.call


def test_what_the_code_inside_deletes_or_sets_is_put_back_too():
    layer = built_dense()
    activation = layer.activation
    with exchanged(layer, activation=None, extra=1):
        vars(layer).pop("extra")
        vars(layer)["activation"] = "other"
    assert layer.activation is activation and not hasattr(layer, "extra")


def test_contexts_nest():
    layer = built_dense()
    units = layer.units
    with exchanged(layer, units=1):
        with exchanged(layer, units=2):
            assert layer.units == 2
        assert layer.units == 1
    assert layer.units == units


def test_an_attribute_may_have_any_name():
    layer = built_dense()
    with exchanged(layer, owner=1, attributes=2, before=3):
        assert (layer.owner, layer.attributes, layer.before) == (1, 2, 3)


@pytest.mark.parametrize("kind", ["functional", "sequential", "subclassed"])
def test_a_method_is_exchanged_wherever_a_model_calls_it(kind):
    layer = keras.layers.Dense(3)
    inputs = keras.Input((3,))
    if kind == "functional":
        model = keras.Model(inputs, layer(inputs))
    elif kind == "sequential":
        model = keras.Sequential([inputs, layer])
    else:

        class Model(keras.Model):
            def call(self, x):
                return layer(x)

        model = Model()
        model(X)
    call, calls = layer.call, []

    def counted(*args, **kwargs):
        calls.append(1)
        return call(*args, **kwargs)

    with exchanged_method(layer, "call", counted):
        assert inspect.signature(layer.call) == inspect.signature(call)
        model(X)
    model(X)
    assert len(calls) == 1


def test_a_method_of_the_instance_comes_back():
    layer = built_dense()

    def own(inputs):
        return inputs

    layer.call = own
    with exchanged_method(layer, "call", lambda inputs: inputs + 1):
        assert layer.call(1) == 2
    assert layer.call(1) == 1 and vars(layer)["call"] is own
