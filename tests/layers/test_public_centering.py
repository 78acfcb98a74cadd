"""Centred inputs: the network and its gradient are what they were, and rows stay apart."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.layers.statistics_gradients import gradients, random_norm
from tfdpnorm.layers import (
    PublicCentering,
    PublicStatistics,
    joint_pass,
    record_pass,
    use_pass,
)


def network(centred, statistics="public"):
    def centring():
        return [PublicCentering(statistics=statistics)] if centred else []

    return keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            *centring(),
            keras.layers.Conv2D(3, 3, use_bias=False),
            random_norm(statistics=statistics),
            keras.layers.Activation("relu"),
            *centring(),
            keras.layers.Conv2D(4, 2, strides=2),
            random_norm(statistics=statistics),
            keras.layers.Activation("relu"),
            keras.layers.Flatten(),
            *centring(),
            keras.layers.Dense(5),
            random_norm(statistics=statistics),
            keras.layers.Dense(3),
        ]
    )


def pair(**options):
    """The network with and without centring, of the same trainable weights."""
    centred, plain = network(True, **options), network(False, **options)
    for a, b in zip(centred.trainable_weights, plain.trainable_weights, strict=True):
        b.assign(a)
    return centred, plain


@pytest.fixture
def rows(rng):
    return [rng.normal(2.0, 1.0, size=(n, 6, 6, 2)).astype("float32") for n in (4, 9)]


@each("mode", ["public", "blend", "lot"])
def test_the_network_computes_what_it_did(mode, rows):
    x, public = rows
    outputs = []
    for model in pair(statistics=mode):
        statistics = PublicStatistics()
        with record_pass(statistics):
            model(public, training=True)
        with use_pass(statistics) if mode in ("public", "blend") else joint_pass():
            trained = model(x, training=True)
        statistics.store()
        outputs.append((trained, model(x)))
    for centred, plain in zip(*outputs, strict=True):
        np.testing.assert_allclose(centred, plain, atol=2e-5)


def test_the_whole_gradient_is_what_it_was(rows, rng):
    x, public = rows
    y = rng.normal(size=(4, 3)).astype("float32")
    (whole, direct, through), (expected, *_) = (gradients(model, x, y, public) for model in pair())
    for a, b, c, d in zip(whole, direct, through, expected, strict=True):
        np.testing.assert_allclose(a, d, atol=2e-4)
        np.testing.assert_allclose(b + c, d, atol=2e-4)


@each("mode", ["public", "blend"])
def test_rows_do_not_mix(mode, rows):
    x, public = rows
    model = network(True, statistics=mode)
    outputs = []
    for other in (0.0, 1e6, np.nan):
        changed = x.copy()
        changed[1:] = other
        statistics = PublicStatistics()
        with record_pass(statistics):
            model(public, training=True)
        with use_pass(statistics):
            outputs.append(model(changed, training=True)[0].numpy())
    np.testing.assert_array_equal(outputs[0], outputs[1])
    np.testing.assert_array_equal(outputs[0], outputs[2])


def test_training_outside_of_a_private_model_is_rejected(rows):
    layer = PublicCentering()
    with pytest.raises(tf.errors.InvalidArgumentError, match="PublicCentering"):
        layer(rows[0], training=True)
