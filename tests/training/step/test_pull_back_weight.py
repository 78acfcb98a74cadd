"""Weights in the clip: the same in all engines, undone after the noise, and never past C."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
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
    for one_of in available_engines():
        engine = one_of.bind(streams.model, keras.optimizers.SGD(), False, 1)
        clipping = Clipping(0.1, weights=tuple(weights), loss_scale=16.0)
        result = engine(loss_fn, rows, variables, clipping)
        sums[one_of.name] = np.concatenate([np.ravel(g) for g in result.gradients])
        one = tuple(t[:1] for t in rows)
        single = engine(loss_fn, one, variables, clipping)
        assert norm(single.gradients) == pytest.approx(0.1, rel=1e-5)
    for name, total in sums.items():
        np.testing.assert_allclose(total, sums["per_example"], rtol=1e-4, atol=1e-6, err_msg=name)


def test_unclipped_weights_only_multiply(setting):
    streams, loss_fn, rows, variables = setting
    weights = streams.clip_weights(variables)
    for one_of in available_engines():
        engine = one_of.bind(streams.model, keras.optimizers.SGD(), False, 1)
        plain = engine(loss_fn, rows, variables, 1e6).gradients
        clipping = Clipping(1e6, weights=tuple(weights), loss_scale=16.0)
        weighted = engine(loss_fn, rows, variables, clipping).gradients
        for p, w, weight in zip(plain, weighted, weights, strict=True):
            np.testing.assert_allclose(w, weight * p, rtol=1e-4, atol=1e-6)


@each("weight", [0.0, -1.0, np.inf, np.nan])
def test_weights_that_make_no_sense_are_rejected(weight, public):
    with pytest.raises(ValueError, match="pull_back_weight"):
        private_of(
            network(),
            public_batch=public,
            expected_batch_size=4,
            steps=1,
            delta=1e-3,
            pull_back_weight=weight,
        )
