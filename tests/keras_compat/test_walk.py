"""What is found inside a model, wherever it is held."""

import collections

import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.walk import modules_inside

Pair = collections.namedtuple("Pair", "one other")


class Model(keras.Model):
    """Holds modules in every way that TensorFlow finds, some of them twice or in a circle."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)
        self.metric = keras.metrics.Mean()
        self.plain = tf.Module()
        self.plain.inner = [keras.metrics.Mean(), {"deep": tf.Module()}]
        self.in_list = [keras.layers.Dense(2), self.dense]
        self.in_tuple = (tf.Module(), Pair(keras.metrics.Mean(), tf.Module()))
        self.in_dict = {"a": keras.metrics.Mean(), "b": [tf.Module()]}
        self.plain.back = self

    def call(self, x):
        return self.dense(x)


@pytest.mark.parametrize("built", [False, True])
def test_all_modules_are_found_once(built):
    model = Model()
    if built:
        model.compile("sgd", "mse", metrics=["mae"])
        model.fit(tf.ones([4, 3]), tf.ones([4, 2]), verbose=0)
    found = [id(x) for x in modules_inside(model)]
    assert len(found) == len(set(found)) and id(model) not in found
    assert {id(x) for x in model.submodules} - {id(model)} <= set(found) and len(found) >= 11


def test_keys_need_no_order():
    holder, inner = tf.Module(), tf.Module()
    holder.held = {"a": 1, 2: inner}
    assert modules_inside(holder) == [inner]
    recurrent = keras.Sequential([keras.layers.GRU(2, recurrent_dropout=0.5)])
    for _ in range(2):
        tf.function(lambda x: recurrent(x, training=True))(tf.ones([2, 3, 4]))
    assert recurrent.layers[0].cell in modules_inside(recurrent)
