"""What an update releases, by its definition: noise first, and all else is made of what it gave."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.layers import PublicBatchNormalization, pull_back
from tfdpnorm.noise.gaussian import GaussianNoise
from tfdpnorm.privacy import make_plan
from tfdpnorm.training.noised_statistics import NoisedStatistics
from tfdpnorm.training.public_rows import PublicBatch, Streams
from tfdpnorm.training.update import ClippedBatch, private_gradients

UPDATE = 4
PLAN = make_plan(
    num_examples=40,
    expected_batch_size=10,
    steps=9,
    l2_norm_clip=3.0,  # not 1, where C, C^2 and min(C, 1) are the same
    noise_multiplier=2.0,
    delta=1e-3,
)


def test_noise_comes_before_the_pull_back_and_the_denominator(public):
    model = keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(4, use_bias=False),
            PublicBatchNormalization(scale=False),  # gamma is measured all the same
            keras.layers.Dense(3),
        ]
    )
    streams = Streams(model, PublicBatch(public, pull_back_weight=8.0))
    trained = trainable_variables(model)
    measured = [*trained, *streams.tap_variables()]
    weights = streams.clip_weights(measured)
    with tf.GradientTape(persistent=True) as tape:
        statistics = streams.public_pass(training=True)
    rng = np.random.default_rng(0)
    sums = [tf.constant(rng.normal(size=v.shape), tf.float32) for v in measured]

    found = private_gradients(
        ClippedBatch(None, sums, PLAN.l2_norm_clip, measured, weights, tape, statistics),
        trained,
        plan=PLAN,
        noise=GaussianNoise(insecure_seed=1),
        update=UPDATE,
        pulls_back=True,
        noised_statistics=NoisedStatistics(model, PLAN),
    )

    noised = GaussianNoise(insecure_seed=1).noised(sums, 2.0 * 3.0, UPDATE)
    released = {v.ref(): r / w for v, r, w in zip(measured, noised, weights, strict=True)}
    through = pull_back(tape, statistics, lambda v: released[v.ref()], trained)
    assert np.abs(through[0]).max() > 0.1
    for variable, gradient, part in zip(trained, found, through, strict=True):
        np.testing.assert_allclose(gradient, (released[variable.ref()] + part) / 10, rtol=1e-5)
