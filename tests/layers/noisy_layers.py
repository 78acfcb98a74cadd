"""Layers with weights of every kind, and what noise in them should come to."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.variables import KERAS_3, raw
from tfdpnorm.layers import WeightNoise

SEED, STDDEV = 2020, 0.3


@keras.utils.register_keras_serializable(package="tests")
class Pieces(keras.layers.Layer):
    """A user's layer with weights in a list, a dict, a tuple, a tf.Module and twice under names."""

    def build(self, input_shape):
        width = input_shape[-1]
        self.listed = [self.add_weight(name=f"listed{i}", shape=(width, width)) for i in range(2)]
        self.named = {"deep": {"scale": self.add_weight(name="scale", shape=(width,))}}
        self.pair = (self.add_weight(name="shift", shape=(width,)), "no weight")
        self.again = self.also = self.add_weight(name="again", shape=(width,))
        self.module = tf.Module()
        self.module.inner = tf.Module()
        if KERAS_3:  # which does not know weights of modules
            self.gain = self.add_weight(name="gain", shape=(width,), initializer="ones")
            self.module.inner.gain = self.gain
        else:
            self.module.inner.gain = tf.Variable(tf.ones([width]) * 0.7, name="gain")
        self.dense = [keras.layers.Dense(width), "no layer"]

    def call(self, inputs):
        x = tf.matmul(tf.matmul(inputs, self.listed[0]), self.listed[1])
        x = x * self.named["deep"]["scale"] + self.pair[0] + self.again * self.also
        return self.dense[0](x) * self.module.inner.gain

    def get_config(self):
        return super().get_config()


class SelfAttention(keras.layers.Layer):
    """Attention of a sequence to itself, which makes its weights at the first call."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = keras.layers.MultiHeadAttention(2, 3)

    def call(self, inputs):
        return self.attention(inputs, inputs)


class Branching(keras.layers.Layer):
    """Relies on AutoGraph, and makes its Dense at the first call."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(3)

    def call(self, inputs):
        x = self.dense(inputs)
        if tf.reduce_sum(inputs) > 0:
            x = x + 1000.0
        return x


@keras.utils.register_keras_serializable(package="tests")
class Drawn(keras.layers.Layer):
    """Gives its kernel for an output, and its kernel times two."""

    def build(self, input_shape):
        self.kernel = self.add_weight(name="kernel", shape=(40, 50), initializer="ones")

    def call(self, inputs):
        return [self.kernel * 1.0, self.kernel * 2.0]


def tokens(rng, shape=(4, 5), highest=7):
    return tf.constant(rng.integers(0, highest, shape))


def normal(rng, *shape):
    return tf.constant(rng.normal(size=shape), tf.float32)


CASES = {
    "dense": (lambda: keras.layers.Dense(3), (4, 5)),
    "conv2d": (lambda: keras.layers.Conv2D(3, 2, strides=2), (2, 6, 6, 2)),
    "embedding": (lambda: keras.layers.Embedding(7, 3), None),
    "gru": (lambda: keras.layers.GRU(3, return_sequences=True), (2, 4, 5)),
    "lstm": (lambda: keras.layers.LSTM(3), (2, 4, 5)),
    "stacked_cells": (
        lambda: keras.layers.RNN([keras.layers.GRUCell(3), keras.layers.LSTMCell(2)]),
        (2, 4, 5),
    ),
    "bidirectional": (lambda: keras.layers.Bidirectional(keras.layers.LSTM(3)), (2, 4, 5)),
    "attention": (SelfAttention, (2, 4, 6)),
    "time_distributed": (lambda: keras.layers.TimeDistributed(keras.layers.Dense(3)), (2, 4, 5)),
    "model": (
        lambda: keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(3)]),
        (4, 5),
    ),
    "pieces": (Pieces, (2, 4, 5)),
    "branching": (Branching, (2, 5)),
}


def case(name, rng):
    make, shape = CASES[name]
    return make, tokens(rng) if shape is None else normal(rng, *shape)


def trainable(layer):
    return raw([w for w in layer.weights if w.trainable])


def fresh_draws(weights, seed=SEED, stddev=STDDEV, calls=1):
    """What the wrapper should draw at its `calls`-th call, as NumPy arrays, worked out apart."""
    generator = tf.random.Generator.from_key_counter(seed, [0, 0], "philox")
    for _ in range(calls):
        drawn = [
            w.numpy() + np.float32(stddev) * generator.normal(w.shape).numpy() for w in weights
        ]
    return drawn


def both(make, inputs, **options):
    """A wrapper, and a plain layer whose variables can hold draws."""
    wrapper = WeightNoise(make(), STDDEV, seed=SEED, **options)
    plain = make()
    plain(inputs)
    wrapper.build(tuple(inputs.shape))
    wrapper(inputs)
    wrapper.build(tuple(inputs.shape))  # the sequence of draws anew
    for to, value in zip(wrapper.weights, plain.weights, strict=True):
        to.assign(value)
    return wrapper, plain


def gradients_of(layer, inputs, weights, **kwargs):
    with tf.GradientTape() as tape:
        outputs = layer(inputs, **kwargs)
        loss = tf.reduce_sum(tf.square(outputs) + 0.3 * outputs)
    return outputs, [tf.convert_to_tensor(g) for g in tape.gradient(loss, raw(weights))]
