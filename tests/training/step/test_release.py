"""What an update releases, by its definition: noise first, and all else is made of what it gave."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.layers import PublicBatchNormalization, pull_back
from tfdpnorm.noise.gaussian import GaussianNoise
from tfdpnorm.privacy import make_plan
from tfdpnorm.training.noised_statistics import NoisedStatistics
from tfdpnorm.training.public_rows import PublicBatch, Streams
from tfdpnorm.training.update import ClippedBatch, private_gradients

UPDATE, WEIGHT = 4, 8.0
CLIP = 3.0  # not 1, where C, C^2 and min(C, 1) are the same


@pytest.mark.parametrize("multiplier, shrinks", [(2.0, False), (2.0, True), (0.0, True)])
def test_noise_comes_before_the_pull_back_and_the_denominator(public, multiplier, shrinks):
    """The pull-back alone reads shrunk numbers."""
    layers = [
        keras.layers.Dense(4, use_bias=False),
        PublicBatchNormalization(scale=False),  # gamma is measured all the same
        keras.layers.Dense(3),
    ]
    model = keras.Sequential([keras.Input((5,)), *layers])
    streams = Streams(model, PublicBatch(public, "shrunk" if shrinks else "whole", WEIGHT))
    assert streams.shrinks == shrinks
    trained = trainable_variables(model)
    measured = [*trained, *streams.tap_variables()]
    weights = streams.clip_weights(measured)
    with tf.GradientTape(persistent=True) as tape:
        statistics = streams.public_pass(training=True)
    rng = np.random.default_rng(0)
    sums = [tf.constant(8 * rng.normal(size=v.shape), tf.float32) for v in measured]
    plan = make_plan(
        num_examples=40,
        expected_batch_size=10,
        steps=9,
        l2_norm_clip=CLIP,
        noise_multiplier=multiplier,
        delta=1e-3,
    )
    found = private_gradients(
        ClippedBatch(None, sums, CLIP, measured, weights, tape, statistics),
        trained,
        plan=plan,
        noise=GaussianNoise(insecure_seed=1),
        update=UPDATE,
        pulls_back=True,
        shrinks=shrinks,
        noised_statistics=NoisedStatistics(model, plan),
    )
    noised, stddev = sums, multiplier * CLIP
    if multiplier:
        noised = GaussianNoise(insecure_seed=1).noised(sums, stddev, UPDATE)
    released = {v.ref(): r / w for v, r, w in zip(measured, noised, weights, strict=True)}

    def read(variable):
        x = released[variable.ref()]
        if not shrinks:
            return x
        squares = float(tf.reduce_sum(x * x))
        factor = max(0.0, 1 - (len(x) - 2) * (stddev / WEIGHT) ** 2 / squares)
        assert factor == 1.0 or 0 < factor < 0.99 or not multiplier
        return factor * x

    through = pull_back(tape, statistics, read, trained)
    assert np.abs(through[0]).max() > 0.1
    for variable, gradient, part in zip(trained, found, through, strict=True):
        np.testing.assert_allclose(gradient, (released[variable.ref()] + part) / 10, rtol=1e-4)
