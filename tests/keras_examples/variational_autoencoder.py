"""A convolutional variational autoencoder, after Keras' example of that name.

The example has a `train_step` of its own, which is refused. Here the divergence of each example is
an output of the model, with a loss that takes it as it is.
"""

import tensorflow as tf
from tensorflow import keras

from tests.keras_examples.case import P

layers = keras.layers
LATENT = 2


class Sampling(layers.Layer):
    """Draws a vector from the normal distribution of each example.

    Args:
        draw: Function of the means [rows, D] that gives as many numbers.
    """

    def __init__(self, draw, **options):
        super().__init__(**options)
        self.draw = draw

    def call(self, inputs):
        mean, log_variance = inputs
        return mean + tf.exp(0.5 * log_variance) * self.draw(mean)


def drawn(mean):
    """As the example draws."""
    return tf.random.normal(tf.shape(mean))


def of_the_mean(mean):
    """Numbers that are the same whenever an example is run, for comparisons."""
    return tf.stop_gradient(tf.sin(50.0 * mean))


class Divergence(layers.Layer):
    """Kullback-Leibler divergence from the standard normal distribution, [rows, 1]."""

    def call(self, inputs):
        mean, log_variance = inputs
        apart = 1 + log_variance - tf.square(mean) - tf.exp(log_variance)
        return -0.5 * tf.reduce_sum(apart, axis=1, keepdims=True)


def variational_autoencoder(draw=drawn):
    """Images [rows, 8, 8, 1] to [their reconstruction, the divergence [rows, 1]]."""
    images = keras.Input((P, P, 1))
    x = layers.Conv2D(3, 3, activation="relu", strides=2, padding="same")(images)
    x = layers.Conv2D(4, 3, activation="relu", strides=2, padding="same")(x)
    x = layers.Dense(6, activation="relu")(layers.Flatten()(x))
    code = [layers.Dense(LATENT)(x), layers.Dense(LATENT)(x)]
    x = layers.Dense(2 * 2 * 4, activation="relu")(Sampling(draw)(code))
    x = layers.Reshape((2, 2, 4))(x)
    x = layers.Conv2DTranspose(4, 3, activation="relu", strides=2, padding="same")(x)
    x = layers.Conv2DTranspose(3, 3, activation="relu", strides=2, padding="same")(x)
    decoded = layers.Conv2DTranspose(1, 3, activation="sigmoid", padding="same")(x)
    return keras.Model(images, [decoded, Divergence()(code)])


def reconstruction(y, decoded):
    """Binary cross entropy of each image, summed over its pixels."""
    losses = keras.losses.binary_crossentropy(tf.sigmoid(y), decoded)
    return tf.reduce_sum(losses, axis=(1, 2))


def as_it_is(y, divergence):
    """What the model gives is the loss."""
    del y
    return divergence[:, 0]
