"""Copies of models, and models within."""

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from tfdpnorm.keras_compat.devices_and_precision import made_under
from tfdpnorm.keras_compat.exchange import (
    cloned,
    models_within,
    without_mixed_precision,
)
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.keras_compat.variables import KERAS

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


@each("make", [functional, sequential, deferred])
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


def test_models_within():
    model = functional()
    assert [part.name for part in models_within(model)] == ["whole", "nested"]

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = sequential()

    subclassed = Subclassed()
    assert list(models_within(subclassed)) == [subclassed]


SEQUENCES = np.random.default_rng(0).normal(size=(5, 6, 4)).astype(np.float32)


def mixed_network():
    """Layers in layers, a nested model and a frozen part."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6, 4))
    x = keras.layers.TimeDistributed(keras.layers.Dense(3, activation="tanh"))(inputs)
    x = keras.layers.Bidirectional(keras.layers.GRU(2, return_sequences=True))(x)
    nested = keras.Sequential([keras.Input((6, 4)), keras.layers.Dense(3, trainable=False)])
    x = keras.layers.BatchNormalization()(nested(x) * 2.0)
    return keras.Model(inputs, keras.layers.Dense(2, dtype="float32")(x))


@pytest.mark.skipif(
    (3, 0) <= KERAS < (3, 10), reason="the graph itself casts there; it is for our trainers alone"
)
def test_the_copy_computes_as_a_model_without_mixed_precision():
    policy, plain = "mixed_bfloat16", "float32"
    with made_under(policy):
        model = mixed_network()
    with made_under(plain):
        expected = mixed_network()
    expected.set_weights(model.get_weights())
    with made_under(policy):  # a global policy is not what the copy goes by
        copy = without_mixed_precision(model)
    dtypes = {layer.name: layer.compute_dtype for layer in sublayers(copy)}
    assert set(dtypes.values()) == {plain}
    assert len(copy.trainable_variables) == len(model.trainable_variables)
    for own, other in zip(model.weights, copy.weights, strict=True):
        assert own is not other and own.dtype == other.dtype
    np.testing.assert_array_equal(copy(SEQUENCES), expected(SEQUENCES))
    assert np.abs(np.asarray(model(SEQUENCES)) - copy(SEQUENCES)).max() > 1e-5
