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


@pytest.mark.filterwarnings("ignore:There is no gradient rule", "ignore:Examples are taken")
@pytest.mark.keras_2_only("no AutoGraph")
@pytest.mark.filterwarnings("ignore:engine=None takes", "ignore:Per-example independence")
def test_they_train_by_the_same_gradients_as_row_by_row():
    x = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
    y = np.ones((N, 1), np.float32)
    found = []
    for engine in (None, "per_example"):
        keras.utils.set_random_seed(4)
        model = keras.Sequential([keras.Input((4,)), Gate(), layers.Dense(1)])
        private = private_of(
            model,
            engine=engine,
            num_examples=N,
            expected_batch_size=N,
            steps=1,
            noise_multiplier=0.0,
            l2_norm_clip=0.5,
        )
        private.compile(keras.optimizers.SGD(1.0), "mse")
        private.fit(x, y, verbose=0)
        found.append(model.get_weights())
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
