"""Shrinking of noised vectors, and where the pull-back uses it."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.layers import PublicBatchNormalization, pull_back
from tfdpnorm.noise.gaussian import GaussianNoise
from tfdpnorm.privacy import make_plan
from tfdpnorm.training.noised_statistics import NoisedStatistics
from tfdpnorm.training.post_processing import shrunk
from tfdpnorm.training.public_rows import PublicBatch, Streams
from tfdpnorm.training.update import ClippedBatch, private_gradients

PLAN = make_plan(
    num_examples=40,
    expected_batch_size=10,
    steps=9,
    l2_norm_clip=3.0,
    noise_multiplier=2.0,
    delta=1e-3,
)


def test_the_formula():
    x = np.array([3.0, 0.0, -4.0, 12.0], np.float32)
    expected = (1 - 2 * 1.5**2 / 169) * x
    np.testing.assert_allclose(shrunk(tf.constant(x), 1.5), expected, rtol=1e-6)
    np.testing.assert_array_equal(shrunk(tf.constant(x), 0.0), x)
    np.testing.assert_array_equal(shrunk(tf.constant(x), 100.0), 0 * x)
    np.testing.assert_array_equal(shrunk(tf.constant(x[:2]), 100.0), x[:2])
    np.testing.assert_array_equal(shrunk(tf.zeros(5), 1.0), np.zeros(5))


@each("size", [0.0, 1.0, 4.0, 30.0])
def test_it_is_nearer_to_the_truth(size):
    rng = np.random.default_rng(0)
    truth = np.full(20, size / np.sqrt(20), np.float32)
    noised = (truth + 0.7 * rng.normal(size=(400, 20))).astype(np.float32)
    made = np.stack([shrunk(tf.constant(x), 0.7).numpy() for x in noised])
    error, before = (np.mean(np.sum((x - truth) ** 2, axis=1)) for x in (made, noised))
    assert error < before and (size > 4 or error < 0.75 * before)


@pytest.mark.parametrize("multiplier", [2.0, 0.0])
def test_only_the_pull_back_reads_shrunk_numbers(public, multiplier):
    layers = keras.layers
    norm = PublicBatchNormalization(scale=False)
    model = keras.Sequential(
        [keras.Input((5,)), layers.Dense(4, use_bias=False), norm, layers.Dense(3)]
    )
    streams = Streams(model, PublicBatch(public, "shrunk", 8.0))
    assert streams.shrinks
    trained = trainable_variables(model)
    measured = [*trained, *streams.tap_variables()]
    weights = streams.clip_weights(measured)
    with tf.GradientTape(persistent=True) as tape:
        statistics = streams.public_pass(training=True)
    rng = np.random.default_rng(0)
    sums = [tf.constant(8 * rng.normal(size=v.shape), tf.float32) for v in measured]
    plan = (
        PLAN
        if multiplier
        else make_plan(
            num_examples=40,
            expected_batch_size=10,
            steps=9,
            l2_norm_clip=3.0,
            noise_multiplier=0.0,
            delta=1e-3,
        )
    )
    found = private_gradients(
        ClippedBatch(None, sums, plan.l2_norm_clip, measured, weights, tape, statistics),
        trained,
        plan=plan,
        noise=GaussianNoise(insecure_seed=1),
        update=4,
        pulls_back=True,
        shrinks=True,
        noised_statistics=NoisedStatistics(model, plan),
    )
    noised = sums
    if multiplier:
        noised = GaussianNoise(insecure_seed=1).noised(sums, multiplier * 3.0, 4)
    released = {v.ref(): r / w for v, r, w in zip(measured, noised, weights, strict=True)}

    def read(variable):
        x, stddev = released[variable.ref()], multiplier * 3.0 / 8.0
        factor = max(0.0, 1 - (len(x) - 2) * stddev**2 / float(tf.reduce_sum(x * x)))
        assert factor == 1.0 or 0 < factor < 0.99 or not multiplier
        return factor * x

    through = pull_back(tape, statistics, read, trained)
    for variable, gradient, part in zip(trained, found, through, strict=True):
        np.testing.assert_allclose(gradient, (released[variable.ref()] + part) / 10, rtol=1e-4)


def test_invalid_pull_back_is_rejected():
    with pytest.raises(ValueError, match="'half'"):
        PublicBatch([[1.0], [2.0]], pull_back="half")
