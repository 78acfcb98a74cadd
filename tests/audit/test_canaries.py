"""The audit of one training: coins, scores and guesses, a planted fault and an honest run."""

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from tests.private_of import private_of
from tfdpnorm.audit.canaries import (
    CANARY_KINDS,
    CanaryScores,
    audit_canaries,
    make_canaries,
)
from tfdpnorm.data import poisson_batches
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.noise.gaussian import GaussianNoise
from tfdpnorm.privacy import PrivacyBudget

FEATURES, CLASSES, OTHERS, CANARIES = 30, 4, 40, 60


@pytest.fixture(scope="module")
def rows():
    """(x, y) of the others and the canaries' raw material."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(OTHERS + CANARIES, FEATURES)).astype(np.float32)
    return x, rng.integers(CLASSES, size=len(x))


def compiled(optimizer=None, norm=None, **settings):
    layers = [
        keras.Input((FEATURES,)),
        keras.layers.Dense(16),
        norm,
        keras.layers.Activation("tanh"),
        keras.layers.Dense(CLASSES),
    ]
    private = private_of(
        keras.Sequential([layer for layer in layers if layer is not None]),
        **{
            "num_examples": OTHERS + CANARIES,
            "expected_batch_size": 50,
            "steps": 20,
            "budget": PrivacyBudget(1.0, 1e-5),
            **settings,
        },
    )
    private.compile(
        optimizer or keras.optimizers.SGD(0.05),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return private


def audited(rows):
    """Trains with canaries by the real `fit` and audits the claim."""
    x, y = rows
    planted = make_canaries(x[OTHERS:], y[OTHERS:], CLASSES, insecure_seed=3)
    private = compiled()
    scores = CanaryScores(private, planted, x[:OTHERS], y[:OTHERS], rows_at_a_time=16)
    joined_x, joined_y, weights = planted.join(x[:OTHERS], y[:OTHERS])
    private.fit(
        poisson_batches(joined_x, joined_y, sample_weight=weights, expected_batch_size=50),
        verbose=0,
        callbacks=[scores],
    )
    found = audit_canaries(
        scores.scores,
        planted.included,
        guesses=CANARIES // 2,
        claimed_epsilon=private.ledger.epsilon(),
        delta=1e-5,
    )
    return found, scores.scores, planted


@pytest.mark.slow
def test_a_training_with_a_hundredth_of_the_noise_is_caught(rows, monkeypatch):
    noised = GaussianNoise.noised
    monkeypatch.setattr(
        GaussianNoise,
        "noised",
        lambda self, sums, stddev, update: noised(self, sums, stddev / 100, update),
    )
    found, scores, planted = audited(rows)
    assert found.claimed_epsilon <= 1.0 and found.violation
    assert scores[planted.included].mean() > scores[~planted.included].mean() + 0.1


@each("kind", CANARY_KINDS)
def test_canaries_have_the_shapes_and_labels_of_their_kind(rows, kind):
    x, y = rows
    planted = make_canaries(x, y, CLASSES, kind=kind, insecure_seed=1)
    assert planted.x.shape == x.shape and planted.x.dtype == x.dtype
    assert set(np.unique(planted.y)) <= set(range(CLASSES))
    assert 0.3 < planted.included.mean() < 0.7 and planted.included.dtype == bool
    if kind == "mislabelled":
        assert (planted.y != y).all() and np.array_equal(planted.x, x)
    else:
        assert x.min() <= planted.x.min() and planted.x.max() <= x.max()
        assert not (planted.x == x).any()


def test_coins_are_secret_unless_a_seed_is_given(rows):
    coins = [make_canaries(*rows, CLASSES).included for _ in range(2)]
    assert not np.array_equal(*coins)
    coins = [make_canaries(*rows, CLASSES, insecure_seed=2).included for _ in range(2)]
    assert np.array_equal(*coins)


def test_guesses_are_counted():
    scores = np.array([5.0, -1.0, 3.0, 0.5, -2.0, 0.1])
    included = np.array([True, False, False, True, False, True])
    found = audit_canaries(scores, included, guesses=4, claimed_epsilon=1.0, delta=1e-5)
    assert (found.canaries, found.guesses, found.correct) == (6, 4, 3)
    assert audit_canaries(scores, included, guesses=2, claimed_epsilon=1.0, delta=1e-5).correct == 2


def test_settings_that_cannot_be_audited_are_rejected(rows):
    x, y = rows
    planted = make_canaries(x[:10], y[:10], CLASSES)
    for optimizer in (keras.optimizers.Adam(), keras.optimizers.SGD(0.1, momentum=0.9)):
        with pytest.raises(ValueError, match="SGD"):
            CanaryScores(compiled(optimizer), planted, x, y)
    lot = compiled(norm=PublicBatchNormalization(statistics="lot"), public_batch=x[:8])
    with pytest.raises(ValueError, match="'lot'"):
        CanaryScores(lot, planted, x, y)
    for guesses in (0, 3, 12):
        with pytest.raises(ValueError, match="guesses"):
            audit_canaries(
                np.zeros(10), planted.included, guesses=guesses, claimed_epsilon=1.0, delta=0.0
            )
    with pytest.raises(ValueError, match="kind"):
        make_canaries(x, y, CLASSES, kind="yellow")
