"""Copies of models with layers exchanged: weights, frozen parts and nested models."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.keras_compat.clone import cloned, copy_state, fresh_copy, models_within

X = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


def functional():
    inputs = keras.Input((4,), name="first")
    shared = keras.layers.Dense(4, name="shared")
    nested = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(4, name="inner"), keras.layers.ReLU()],
        name="nested",
    )
    x = keras.layers.BatchNormalization(name="norm")(shared(shared(inputs)))
    frozen = keras.layers.Dense(2, name="frozen", trainable=False)
    return keras.Model(inputs, [frozen(nested(x)) + 1.0, x], name="whole")


def sequential():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])


def deferred():
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(2)])
    model(X)
    return model


def randomized(model):
    rng = np.random.default_rng(2)
    model.set_weights([rng.random(w.shape) for w in model.weights])
    return model


def nothing(layer):
    del layer


@pytest.mark.parametrize("make", [functional, sequential, deferred])
def test_a_copy_computes_the_same_with_weights_of_its_own(make):
    model = randomized(make())
    copy, exchanged = cloned(model, nothing)
    assert type(copy) is type(model) and copy.name == model.name and exchanged == []
    for own, copied in zip(model.weights, copy.weights, strict=True):
        assert own is not copied
        np.testing.assert_array_equal(own, copied)
    before = [np.asarray(t) for t in as_list(model(X))]
    for one, other in zip(before, as_list(copy(X)), strict=True):
        np.testing.assert_array_equal(one, other)
    copy.set_weights([0 * w for w in copy.get_weights()])
    for one, other in zip(before, as_list(model(X)), strict=True):
        np.testing.assert_array_equal(one, other)


def as_list(outputs):
    return outputs if isinstance(outputs, list) else [outputs]


def test_layers_are_exchanged_in_nested_models_too():
    model = randomized(functional())
    seen = []

    def wider(layer):
        seen.append(layer.name)
        if isinstance(layer, keras.layers.Dense):
            return keras.layers.Dense(layer.units, activation="tanh", name=layer.name)
        return None

    copy, exchanged = cloned(model, wider)
    assert {layer.name for layer, _ in exchanged} == {"shared", "inner", "frozen"}
    assert not {"first", "nested", "whole"} & set(seen)  # no input layers, no models
    assert copy.get_layer("nested").get_layer("inner").activation is keras.activations.tanh
    for layer, other in exchanged:
        other.set_weights(layer.get_weights())
        assert other.activation is keras.activations.tanh
    np.testing.assert_array_equal(
        copy.get_layer("norm").moving_mean, model.get_layer("norm").moving_mean
    )


def test_frozen_parts_stay_frozen():
    inputs = keras.Input((3, 4))
    recurrent = keras.layers.Bidirectional(keras.layers.SimpleRNN(4), name="recurrent")
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(recurrent(inputs)))
    recurrent.forward_layer.trainable = False
    copy, _ = cloned(randomized(model), nothing)
    assert not copy.get_layer("recurrent").forward_layer.trainable
    assert copy.get_layer("recurrent").backward_layer.trainable
    for own, copied in zip(model.weights, copy.weights, strict=True):
        np.testing.assert_array_equal(own, copied)
    model.trainable = False
    copy, _ = cloned(model, nothing)
    assert not copy.trainable and not copy.trainable_weights


def test_a_layer_in_anothers_place_keeps_its_own_switch():
    def frozen_copy(layer):
        other = fresh_copy(layer)
        other.trainable = False
        return other

    copy, exchanged = cloned(sequential(), frozen_copy)
    assert copy.trainable and not copy.trainable_weights
    for layer, other in exchanged:
        copy_state(layer, other)
    assert len(copy.trainable_weights) == 4


def test_models_within():
    model = functional()
    assert [part.name for part in models_within(model)] == ["whole", "nested"]

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = sequential()

    subclassed = Subclassed()
    assert list(models_within(subclassed)) == [subclassed]
