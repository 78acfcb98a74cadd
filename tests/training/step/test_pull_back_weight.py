"""Weights in the clip: the same in all engines, undone after the noise, and never past C."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.gradients import Clipping
from tfdpnorm.gradients.engines.registry import available_engines
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.training.losses import PerExampleLoss
from tfdpnorm.training.public_rows import PublicBatch, Streams

WEIGHT = 8.0


def network(scale=True):
    return keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(4, use_bias=False),
            PublicBatchNormalization(scale=scale),
            keras.layers.Dense(3),
        ]
    )


@pytest.fixture
def setting(data, public, cross_entropy):
    """(streams, loss_fn, rows of 6 examples and one of padding, variables)."""
    model = network()
    streams = Streams(model, PublicBatch(public, pull_back_weight=WEIGHT))
    statistics = streams.public_pass(training=True)
    loss = PerExampleLoss(cross_entropy)

    def loss_fn(x, y, sample_weight):
        predictions = streams.forward(x, statistics, training=True)
        return loss(y, predictions, sample_weight), predictions

    mask = tf.constant([1.0] * 6 + [0.0])
    rows = (tf.constant(data[0][:7] * 5), tf.constant(data[1][:7]), tf.ones(7), mask)
    return streams, loss_fn, rows, model.trainable_variables


def norm(gradients):
    return np.sqrt(sum(np.square(g).sum() for g in gradients))


def test_engines_agree_and_the_weighted_norm_is_clipped(setting):
    streams, loss_fn, rows, variables = setting
    weights = streams.clip_weights(variables)
    assert weights == [1.0, WEIGHT, WEIGHT, 1.0, 1.0]
    sums = {}
    for each in available_engines():
        engine = each.bind(streams.model, keras.optimizers.SGD(), False, 1)
        clipping = Clipping(0.1, weights=tuple(weights), loss_scale=16.0)
        result = engine(loss_fn, rows, variables, clipping)
        sums[each.name] = np.concatenate([np.ravel(g) for g in result.gradients])
        one = tuple(t[:1] for t in rows)
        single = engine(loss_fn, one, variables, clipping)
        assert norm(single.gradients) == pytest.approx(0.1, rel=1e-5)
    for name, total in sums.items():
        np.testing.assert_allclose(total, sums["per_example"], rtol=1e-4, atol=1e-6, err_msg=name)


def test_unclipped_weights_only_multiply(setting):
    streams, loss_fn, rows, variables = setting
    weights = streams.clip_weights(variables)
    for each in available_engines():
        engine = each.bind(streams.model, keras.optimizers.SGD(), False, 1)
        plain = engine(loss_fn, rows, variables, 1e6).gradients
        clipping = Clipping(1e6, weights=tuple(weights), loss_scale=16.0)
        weighted = engine(loss_fn, rows, variables, clipping).gradients
        for p, w, weight in zip(plain, weighted, weights, strict=True):
            np.testing.assert_allclose(w, weight * p, rtol=1e-4, atol=1e-6)


def noisy_updates(data, public, weight, updates=40):
    """Weight changes of updates that are nearly pure noise, by variable."""
    model = network()
    private = private_of(
        model,
        public_batch=public,
        num_examples=40,
        expected_batch_size=1,
        steps=updates,
        l2_norm_clip=1e-3,
        noise_multiplier=100.0,
        delta=1e-3,
        pull_back_weight=weight,
    )
    private.compile(keras.optimizers.SGD(1.0), "mse")
    changes = []
    y = np.zeros((40, 3), np.float32)
    for _ in range(updates):
        before = model.get_weights()[:3] + model.get_weights()[-2:]
        private.fit(data[0], y, epochs=1, steps_per_epoch=1, verbose=0)
        after = model.get_weights()[:3] + model.get_weights()[-2:]
        changes.append([a - b for a, b in zip(after, before, strict=True)])
    return [np.stack(c) for c in zip(*changes, strict=True)]


@pytest.mark.slow
def test_noise_of_weighted_variables_is_divided_by_the_weight(data, public):
    _, gamma, beta, kernel, _ = noisy_updates(data, public, WEIGHT)
    # z C / L = 0.1 on every released sum. 480 and 320 numbers: the relative error of the deviation
    # is 0.04, and 0.25 is more than six times that.
    assert np.std(kernel) == pytest.approx(0.1, rel=0.25)
    scales = np.concatenate([gamma, beta])
    assert np.std(scales) == pytest.approx(0.1 / WEIGHT, rel=0.25)


@pytest.mark.parametrize("weight", [0.0, -1.0, np.inf, np.nan])
def test_weights_that_make_no_sense_are_rejected(weight, public):
    with pytest.raises(ValueError, match="pull_back_weight"):
        private_of(
            network(),
            public_batch=public,
            num_examples=40,
            expected_batch_size=4,
            steps=1,
            l2_norm_clip=1.0,
            noise_multiplier=1.0,
            delta=1e-3,
            pull_back_weight=weight,
        )
