"""Gradient canaries: what they are, what they score, and that an honest training passes."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.audit import gradient_canaries as gc
from tfdpnorm.audit.trade_offs import DPSGDFamily
from tfdpnorm.data import Lot, poisson_batches
from tfdpnorm.noise.gaussian import GaussianNoise
from tfdpnorm.privacy import PrivacyBudget

FEATURES, CLASSES, OTHERS, CANARIES, CLIP = 6, 3, 10, 300, 0.7


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(OTHERS, FEATURES)).astype(np.float32)
    return x, rng.integers(CLASSES, size=OTHERS)


def compiled(optimizer=None):
    hidden = keras.layers.Dense(8, activation="tanh")
    network = keras.Sequential([keras.Input((FEATURES,)), hidden, keras.layers.Dense(CLASSES)])
    private = private_of(
        gc.with_canary_table(network, CANARIES),
        num_examples=OTHERS + CANARIES,
        expected_batch_size=OTHERS + CANARIES,
        steps=2,
        l2_norm_clip=CLIP,
        budget=PrivacyBudget(4.0, 1e-5),
        accountant="pld",
        validate=False,
    )
    private.compile(
        optimizer or keras.optimizers.SGD(0.05),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return private


def trained(rows, private):
    """Trains with canaries; returns their coins and the `TableScores`."""
    included = np.random.default_rng(1).integers(2, size=CANARIES).astype(bool)
    joined, labels, weights = gc.with_canaries(*rows, included)
    scores = gc.TableScores(private)
    private.fit(
        poisson_batches(
            joined,
            labels,
            sample_weight=weights,
            expected_batch_size=private.plan.expected_batch_size,
        ),
        verbose=0,
        callbacks=[scores],
    )
    return included, scores


def audited(rows, private):
    plan = private.plan
    included, scores = trained(rows, private)
    return gc.audit_gradient_canaries(
        scores.scores,
        included,
        guesses=60,
        claimed_epsilon=plan.claimed_epsilon_after(plan.steps),
        family=DPSGDFamily(plan.sampling_rate, plan.steps, plan.delta),
    )


def test_each_canary_moves_the_sum_by_c_along_its_own_number(rows):
    private = compiled()
    x, y, _ = gc.with_canaries(*rows, np.ones(CANARIES, bool))
    (table,) = private.model.get_layer(gc.TABLE).weights
    place = next(i for i, v in enumerate(private.model.trainable_variables) if v is table)

    def total(which):
        x_part = tuple(tf.constant(leaf[which][np.newaxis]) for leaf in x)
        ones = tf.ones([1, len(which)])
        return private.clipped_sum(Lot(x_part, tf.constant(y[which][np.newaxis]), ones, ones))

    ordinary = total(np.arange(OTHERS))
    np.testing.assert_array_equal(ordinary[place], np.zeros_like(ordinary[place]))
    chosen = np.array([0, 7, CANARIES - 1])
    sums = total(OTHERS + chosen)
    expected = np.zeros((CANARIES + 1, 1))
    expected[chosen] = CLIP
    np.testing.assert_allclose(sums[place], expected, atol=1e-5 * CLIP)
    others = [s for i, s in enumerate(sums) if i != place]
    assert max(np.abs(s).max() for s in others) < 1e-4 * CLIP


@pytest.mark.slow
def test_half_of_the_noise_is_seen(rows, monkeypatch):
    noised = GaussianNoise.noised
    monkeypatch.setattr(
        GaussianNoise,
        "noised",
        lambda self, sums, stddev, update: noised(self, sums, stddev / 2, update),
    )
    found = audited(rows, compiled())
    assert found.not_as_claimed and found.independent_epsilon > 4.5
    assert found.audited_epsilon > found.epsilon_delta_bound


def test_scores_are_likelihood_ratios():
    """Of mixtures, by the densities themselves."""
    y, rate, noise = np.array([-2.0, 0.3, 1.7]), 0.3, 0.9

    def density(mean):
        return np.exp(-((y - mean) ** 2) / (2 * noise**2))

    expected = np.log((rate * density(1) + (1 - rate) * density(0)) / density(0))
    np.testing.assert_allclose(gc.log_likelihood_ratio(y, rate, noise), expected)
    np.testing.assert_allclose(
        gc.log_likelihood_ratio(y, 1.0, noise), np.log(density(1) / density(0))
    )


def test_settings_that_cannot_be_scored_are_rejected(rows):
    for optimizer in (keras.optimizers.Adam(), keras.optimizers.SGD(0.1, momentum=0.9)):
        with pytest.raises(ValueError, match="SGD"):
            gc.TableScores(compiled(optimizer))
    for guesses in (0, 3, 6):
        with pytest.raises(ValueError, match="guesses"):
            gc.count_correct(np.zeros(4), np.ones(4, bool), guesses)


def test_guesses_are_counted():
    scores = np.array([5.0, -1.0, 3.0, 0.5, -2.0, 0.1])
    included = np.array([True, False, False, True, False, True])
    assert [gc.count_correct(scores, included, guesses) for guesses in (4, 2)] == [3, 2]
