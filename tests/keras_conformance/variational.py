"""Variational autoencoders in the ways that users write them: functions that give (model, x, y).

The noise of a sample is an input in those that are compared: drawn inside of the model it would be
another one for Keras than for us.
"""

import tensorflow as tf
from tensorflow import keras

from tests.keras_conformance.models import rows

L = keras.layers
WIDTH, LATENT = 6, 2


def divergence(mean, log_variance):
    """Kullback-Leibler divergence from the standard normal distribution, [rows]."""
    apart = 1 + log_variance - tf.square(mean) - tf.exp(log_variance)
    return -0.5 * tf.reduce_sum(apart, axis=-1)


class Sampling(L.Layer):
    """Draws a vector z; and may add the divergence to the loss or to the metrics."""

    def __init__(self, adds=None, **options):
        super().__init__(**options)
        self.adds = adds

    def call(self, inputs):
        mean, log_variance, *noise = inputs
        noise = noise[0] if noise else tf.random.normal(tf.shape(mean))
        apart = divergence(mean, log_variance)
        if self.adds == "mean":
            self.add_loss(tf.reduce_mean(apart))
        if self.adds == "each":
            self.add_loss(apart)
        if self.adds == "metric":
            self.add_metric(apart, name="divergence")
        return mean + tf.exp(0.5 * log_variance) * noise


def _encoded(adds=None, noise=True):
    inputs = [keras.Input((WIDTH,)), *([keras.Input((LATENT,))] if noise else [])]
    hidden = L.Dense(5, "relu")(inputs[0])
    mean, log_variance = L.Dense(LATENT)(hidden), L.Dense(LATENT)(hidden)
    decoder = keras.Sequential([L.Dense(5, "relu"), L.Dense(WIDTH)])
    decoded = decoder(Sampling(adds)([mean, log_variance, *inputs[1:]]))
    return inputs, mean, log_variance, decoded


def with_divergence_as_output():
    """The divergence of each example is an output, and its own loss."""
    inputs, mean, log_variance, decoded = _encoded()
    apart = L.Lambda(lambda both: divergence(*both)[:, tf.newaxis])([mean, log_variance])
    model = keras.Model(inputs, [decoded, apart])
    return model, (rows(WIDTH), rows(LATENT)), (rows(WIDTH), 0 * rows(1))


def with_everything_in_one_output():
    """Reconstruction, mean and logarithm of the variance side by side, for one loss."""
    inputs, mean, log_variance, decoded = _encoded()
    model = keras.Model(inputs, L.Concatenate()([decoded, mean, log_variance]))
    return model, (rows(WIDTH), rows(LATENT)), rows(WIDTH)


def evidence(y, outputs):
    """The loss of `with_everything_in_one_output`, [rows]."""
    decoded, mean, log_variance = tf.split(outputs, [WIDTH, LATENT, LATENT], axis=-1)
    return tf.reduce_sum(tf.square(y - decoded), axis=-1) + divergence(mean, log_variance)


def with_added_loss(adds):
    """The layer that draws adds the divergence: "mean" of the batch, or of "each" example."""
    inputs, _, _, decoded = _encoded(adds, noise=False)
    return keras.Model(inputs[0], decoded), rows(WIDTH), rows(WIDTH)


def with_added_loss_of_the_model():
    """`model.add_loss` of a functional model."""
    inputs, mean, log_variance, decoded = _encoded(noise=False)
    model = keras.Model(inputs[0], decoded)
    model.add_loss(tf.reduce_mean(divergence(mean, log_variance)))
    return model, rows(WIDTH), rows(WIDTH)


class Trained(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential([L.Dense(5, "relu"), L.Dense(2 * LATENT)])
        self.decoder = keras.Sequential([L.Dense(5, "relu"), L.Dense(WIDTH)])
        self.draw = Sampling()

    def call(self, inputs):
        mean, log_variance = tf.split(self.encoder(inputs), 2, axis=-1)
        return self.decoder(self.draw([mean, log_variance]))

    def train_step(self, data):
        raise NotImplementedError


def with_a_train_step():
    """As in Keras' example: a subclassed model with a `train_step` of its own."""
    model = Trained()
    model.build((None, WIDTH))
    return model, rows(WIDTH), rows(WIDTH)
