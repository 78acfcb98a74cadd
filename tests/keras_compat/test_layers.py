"""Losses, random numbers, wrappers and vocabularies of single layers."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat import layers
from tfdpnorm.keras_compat.variables import KERAS_3

X = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.head = keras.layers.Dense(2)

    def call(self, x):
        return self.head(x)


def test_added_losses_are_found_and_put_back():
    class Adding(keras.layers.Layer):
        def call(self, x):
            self.add_loss(tf.reduce_sum(x))
            return x

    model = Subclassed()
    model.head = Adding()
    with layers.losses_put_back([model.head]):
        model(X)
        assert layers.has_added_losses(model.head)
    assert not layers.has_added_losses(model.head)
    model(X)
    layers.clear_losses(model)
    assert not layers.has_added_losses(model.head)
    regular = keras.layers.Dense(2, kernel_regularizer="l2")
    regular(X)
    assert regular.losses and not layers.has_added_losses(regular)


def test_random_layers_repeat_themselves_for_a_while():
    layer = keras.layers.Dropout(0.5)
    layer(X, training=True)
    source = layer.seed_generator if KERAS_3 else layer._random_generator
    before = dict(vars(source))
    with pytest.raises(RuntimeError), layers.repeating([layer, keras.layers.Dense(2)]):
        one, other = (layer(X, training=True).numpy() for _ in range(2))
        np.testing.assert_array_equal(one, other)
        raise RuntimeError("halfway")
    assert vars(source) == before
    one, other = (layer(np.ones([50, 50]), training=True).numpy() for _ in range(2))
    assert np.any(one != other)


def test_every_batch_normalisation_is_known():
    kinds = [keras.layers.BatchNormalization]
    if not KERAS_3:
        kinds.append(keras.layers.experimental.SyncBatchNormalization)
        kinds.append(tf.compat.v1.keras.layers.BatchNormalization)
    assert all(issubclass(kind, layers.BATCH_NORMALIZATIONS) for kind in kinds)
    assert not issubclass(keras.layers.LayerNormalization, layers.BATCH_NORMALIZATIONS)


def test_a_given_vocabulary_is_told_from_a_learnt_one():
    given, learnt = keras.layers.StringLookup(vocabulary=["a"]), keras.layers.StringLookup()
    learnt.adapt(np.array(["a"]))
    assert layers.has_given_vocabulary(given)
    assert not layers.has_given_vocabulary(learnt)
    inner = layers.inner_lookup(keras.layers.TextVectorization(vocabulary=["a"]))
    assert isinstance(inner, keras.layers.StringLookup)


def test_time_distributed_runs_all_steps_at_once():
    seen = []
    layer = keras.layers.TimeDistributed(keras.layers.Lambda(lambda x: seen.append(x.shape) or x))
    layer.build((2, 3, 4))
    for always in (False, True):
        layer._always_use_reshape = always
        del seen[:]
        with layers.all_steps_at_once(layer):
            layer(tf.ones([2, 3, 4]))
        assert seen[-1] == (6, 4) and layer._always_use_reshape == always


def test_positional_names_are_those_of_the_call():
    assert layers.positional_names(keras.layers.Dense(2))[0] == "inputs"
    lstm = layers.positional_names(keras.layers.LSTM(2))
    named = ["sequences", "initial_state"] if KERAS_3 else ["inputs", "initial_state", "constants"]
    assert lstm[: len(named)] == named
