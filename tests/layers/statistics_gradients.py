"""Gradients by way of public statistics, taken in two ways; for the tests of layers with them."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.variables import raw, trainable_variables
from tfdpnorm.layers import (
    PublicBatchNormalization,
    PublicStatistics,
    pull_back,
    record_pass,
    use_pass,
)


def random_norm(**options):
    """Normalisation whose gamma and beta are other than 1 and 0, the same in every layer."""
    return PublicBatchNormalization(
        gamma_initializer=keras.initializers.RandomUniform(0.5, 1.5, seed=1),
        beta_initializer=keras.initializers.RandomUniform(-0.5, 0.5, seed=2),
        **options,
    )


def norms_of(model):
    return [layer for layer in model.layers if isinstance(layer, PublicBatchNormalization)]


def streams(model, x, y, public):
    """Loss of the private rows, and the statistics of the public ones that they used."""
    statistics = PublicStatistics()
    with record_pass(statistics):
        model(public, training=True)
    with use_pass(statistics):
        predictions = model(x, training=True)
    return tf.reduce_sum(tf.square(predictions - y)), statistics


def gradients(model, x, y, public):
    """The whole gradient, its direct part (statistics held constant), and the pulled-back part."""
    variables = trainable_variables(model)
    taps = raw([v for layer in norms_of(model) for v in (layer.gamma, layer.beta)])
    with tf.GradientTape() as tape:
        loss, _ = streams(model, x, y, public)
    whole = tape.gradient(loss, variables)

    with tf.GradientTape(persistent=True) as public_tape:
        _, statistics = streams(model, x, y, public)
    constants = PublicStatistics()
    constants.moments = [
        m._replace(mean=tf.constant(m.mean.numpy()), variance=tf.constant(m.variance.numpy()))
        for m in statistics.moments
    ]
    with tf.GradientTape(persistent=True) as direct_tape:
        direct_tape.watch(taps)
        with use_pass(constants):
            loss = tf.reduce_sum(tf.square(model(x, training=True) - y))
    direct = direct_tape.gradient(loss, variables)
    of_tap = {v.ref(): direct_tape.gradient(loss, v) for v in taps}
    pulled = pull_back(public_tape, statistics, lambda v: of_tap[v.ref()], variables)
    return whole, direct, pulled
