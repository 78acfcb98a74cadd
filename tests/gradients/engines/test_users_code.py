"""Layers of users that are written for AutoGraph, as Keras runs them in training."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of

layers = keras.layers
N = 6


class Gate(layers.Layer):
    """A dense layer with a condition on a weight."""

    def build(self, shape):
        self.on = self.add_weight(name="on", shape=(), trainable=False, initializer="ones")
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1], 3))

    def call(self, x):
        if self.on > 0.5:
            x = x * 2.0
        return tf.matmul(x, self.kernel)


class Recurrent(layers.Layer):
    """A loop over time steps."""

    def build(self, shape):
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1], 3))
        self.again = self.add_weight(name="again", shape=(3, 3))

    def call(self, x):
        h = tf.zeros([tf.shape(x)[0], 3])
        for t in tf.range(tf.shape(x)[1]):
            h = tf.tanh(x[:, t] @ self.kernel + h @ self.again)
        return h


MODELS = {"gate": (Gate, (4,)), "loop": (Recurrent, (5, 4))}


@pytest.mark.filterwarnings("ignore:There is no gradient rule", "ignore:Examples are taken")
@pytest.mark.keras_2_only("no AutoGraph")
@pytest.mark.filterwarnings("ignore:engine=None takes", "ignore:Per-example independence")
@pytest.mark.slow_cases("loop")
@pytest.mark.parametrize("name", MODELS)
def test_they_train_by_the_same_gradients_as_row_by_row(name):
    layer, shape = MODELS[name]
    x = np.random.default_rng(0).normal(size=(N, *shape)).astype(np.float32)
    y = np.ones((N, 1), np.float32)
    found = []
    for engine in (None, "per_example"):
        keras.utils.set_random_seed(4)
        model = keras.Sequential([keras.Input(shape), layer(), layers.Dense(1)])
        private = private_of(
            model,
            engine=engine,
            num_examples=N,
            expected_batch_size=N,
            steps=1,
            noise_multiplier=0.0,
            delta=1e-5,
            l2_norm_clip=0.5,
        )
        private.compile(keras.optimizers.SGD(1.0), "mse")
        private.fit(x, y, verbose=0)
        found.append(model.get_weights())
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
