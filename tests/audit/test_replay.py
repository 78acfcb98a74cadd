"""Replays: two unrelated data sets, the same released numbers, and not one bit of difference."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.attacks.replay import differences, kept_state, other_lots, pinned_sums
from tests.private_of import private_of
from tfdpnorm.data import PoissonBatches
from tfdpnorm.layers import NoisedBatchNormalization, PublicBatchNormalization
from tfdpnorm.training import WeightAverage, update

ROWS, LOT, FEATURES, CLASSES, UPDATES = 40, 12, 6, 3, 3


def unrelated():
    """Two data sets that share nothing but shapes: (context of their lots, x, y)."""
    rng = np.random.default_rng(0)
    ordinary = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    far = rng.uniform(50, 300, (ROWS, FEATURES)).astype(np.float32)
    return [
        (contextlib.nullcontext, ordinary, rng.integers(CLASSES, size=ROWS)),
        (other_lots, far, np.full(ROWS, CLASSES - 1)),
    ]


def dense(norm, regularizer=None):
    return [
        keras.Input((FEATURES,)),
        keras.layers.Dense(8, kernel_regularizer=regularizer),
        norm(),
        keras.layers.Activation("relu"),
        keras.layers.Dense(CLASSES, kernel_regularizer=regularizer),
    ]


def trained(lots, x, y, layers, *, run_dir=None, callbacks=(), **settings):
    """Trains with pinned sums and returns the `kept_state`."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    private = private_of(
        keras.Sequential(layers()),
        num_examples=ROWS,
        expected_batch_size=LOT,
        steps=UPDATES,
        l2_norm_clip=0.7,
        noise_multiplier=1.3,
        delta=1e-3,
        insecure_seed=5,
        validate=False,
        run_dir=run_dir,
        **settings,
    )
    private.compile(
        keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    callbacks = [make() for make in callbacks]
    with pinned_sums(private), lots():
        private.fit(PoissonBatches(x, y, expected_batch_size=LOT), callbacks=callbacks, verbose=0)
    assert int(private.update_count) == UPDATES
    return kept_state(private, callbacks, run_dir)


def replayed(layers, **settings):
    """The differences between trainings on two unrelated data sets, and the first's state."""
    first, second = (trained(*data, layers, **settings) for data in unrelated())
    return differences(first, second), first


CASES = {
    "public statistics and pull-back": {
        "layers": lambda: dense(PublicBatchNormalization),
        "public_batch": np.random.default_rng(1).normal(size=(8, FEATURES)).astype(np.float32),
    },
    "noised statistics": {
        "layers": lambda: dense(NoisedBatchNormalization),
        "physical_batch_size": 5,
    },
    "views, regulariser and average": {
        "layers": lambda: dense(keras.layers.LayerNormalization, "l2"),
        "augmentation_multiplicity": 2,
        "augmentation": lambda x: x + tf.random.normal(tf.shape(x)),
        "callbacks": [WeightAverage],
    },
}


@pytest.mark.slow_cases("[!p]*")
@pytest.mark.parametrize("case", CASES)
def test_state_after_training_is_a_function_of_the_releases(case):
    found, state = replayed(**CASES[case])
    assert found == []
    assert len(state) > 10


@pytest.mark.slow
def test_checkpoints_and_the_ledger_hold_no_more(tmp_path):
    first, second = (
        trained(
            *data,
            lambda: dense(NoisedBatchNormalization),
            run_dir=tmp_path / str(place),
            callbacks=[WeightAverage],
        )
        for place, data in enumerate(unrelated())
    )
    assert differences(first, second) == []
    saved = [name for name in first if name.startswith("checkpoint-00000003")]
    assert len(saved) > 20


def test_a_division_by_the_lots_own_size_is_seen(monkeypatch):
    real_clipped, real_noised = update.Update.clipped, update.Update.noised

    def clipped(self, lot, **options):
        self.size = tf.reduce_sum(lot.mask)
        return real_clipped(self, lot, **options)

    def noised(self, clipped, noise, update):
        return [g * (LOT / self.size) for g in real_noised(self, clipped, noise, update)]

    monkeypatch.setattr(update.Update, "clipped", clipped)
    monkeypatch.setattr(update.Update, "noised", noised)
    found, _ = replayed(lambda: dense(keras.layers.LayerNormalization))
    assert sum(name.startswith("trained weight") for name in found) == 6


def test_a_statement_that_counts_rows_is_seen():
    first, second = {"statement": "of 12 rows", "x": 1.0}, {"statement": "of 13 rows", "x": 1.0}
    assert differences(first, second) == ["statement"]
    assert differences({"x": 0.0}, {"x": -0.0}) == ["x"]
    assert differences({"x": np.float32(1)}, {"x": np.float64(1)}) == ["x"]
    assert differences({"x": 1}, {}) == ["x"]
