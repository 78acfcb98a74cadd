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
from tfdpnorm.training import WeightAverage, noised_statistics, update

ROWS, LOT, FEATURES, CLASSES, UPDATES = 40, 12, 6, 3, 3


def unrelated(shape):
    """Two data sets that share nothing but shapes: (context of their lots, x, y)."""
    rng = np.random.default_rng(0)
    ordinary = rng.normal(size=(ROWS, *shape)).astype(np.float32)
    far = rng.uniform(50, 300, (ROWS, *shape)).astype(np.float32)
    return [
        (contextlib.nullcontext, ordinary, rng.integers(CLASSES, size=ROWS)),
        (other_lots, far, np.full(ROWS, CLASSES - 1)),
    ]


def public_rows(shape):
    return np.random.default_rng(1).normal(size=(8, *shape)).astype(np.float32)


def dense(norm, regularizer=None):
    return [
        keras.Input((FEATURES,)),
        keras.layers.Dense(8, kernel_regularizer=regularizer),
        norm(),
        keras.layers.Activation("relu"),
        keras.layers.Dense(CLASSES, kernel_regularizer=regularizer),
    ]


def lenet5(norm):
    return [
        keras.Input((28, 28, 1)),
        keras.layers.Conv2D(6, 5, padding="same"),
        norm(),
        keras.layers.Activation("relu"),
        keras.layers.AveragePooling2D(),
        keras.layers.Conv2D(16, 5),
        norm(),
        keras.layers.Activation("relu"),
        keras.layers.AveragePooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(120, activation="relu"),
        keras.layers.Dense(84, activation="relu"),
        keras.layers.Dense(CLASSES),
    ]


def trained(lots, x, y, layers, *, pins=pinned_sums, run_dir=None, callbacks=(), **settings):
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
    with pins(private), lots():
        private.fit(PoissonBatches(x, y, expected_batch_size=LOT), callbacks=callbacks, verbose=0)
    assert int(private.update_count) == UPDATES
    return kept_state(private, callbacks, run_dir)


def replayed(layers, shape=(FEATURES,), **settings):
    """The differences between trainings on two unrelated data sets, and the first's state."""
    first, second = (trained(*data, layers, **settings) for data in unrelated(shape))
    return differences(first, second), first


def public(shape=(FEATURES,), statistics="public"):
    return {
        "layers": lambda: dense(lambda: PublicBatchNormalization(statistics=statistics)),
        "public_batch": public_rows(shape),
    }


CASES = {
    "layer norm": {"layers": lambda: dense(keras.layers.LayerNormalization)},
    "public statistics and pull-back": public(),
    "blended statistics": public(statistics="blend"),
    "noised statistics": {"layers": lambda: dense(NoisedBatchNormalization)},
    "several physical batches": {**public(), "physical_batch_size": 5},
    "views, regulariser and average": {
        "layers": lambda: dense(keras.layers.LayerNormalization, "l2"),
        "augmentation_multiplicity": 2,
        "augmentation": lambda x: x + tf.random.normal(tf.shape(x)),
        "callbacks": [WeightAverage],
    },
    "per layer": {
        "layers": lambda: dense(keras.layers.LayerNormalization),
        "clipping": "per_layer",
        "engine": "per_example",
    },
    "lenet5 layer norm": {
        "layers": lambda: lenet5(keras.layers.LayerNormalization),
        "shape": (28, 28, 1),
    },
    "lenet5 public": {
        "layers": lambda: lenet5(PublicBatchNormalization),
        "shape": (28, 28, 1),
        "public_batch": public_rows((28, 28, 1)),
        "physical_batch_size": 8,
    },
    "lenet5 noised": {
        "layers": lambda: lenet5(NoisedBatchNormalization),
        "shape": (28, 28, 1),
        "callbacks": [WeightAverage],
    },
}


@pytest.mark.slow_cases("[!p]*", "per layer")
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
        for place, data in enumerate(unrelated((FEATURES,)))
    )
    assert differences(first, second) == []
    saved = [name for name in first if name.startswith("checkpoint-00000003")]
    assert len(saved) > 20


@pytest.mark.slow
def test_without_the_pins_everything_trained_differs():
    """So that equality is not that of trainings which did nothing."""
    found, _ = replayed(**CASES["layer norm"], pins=contextlib.nullcontext)
    assert sum(name.startswith("trained weight") for name in found) == 6
    assert any(name.startswith("optimizer variable") for name in found)
    assert "statement" not in found


# --- faults planted here ---


def test_a_division_by_the_lots_own_size_is_seen(monkeypatch):
    real_clipped, real_noised = update.Update.clipped, update.Update.noised

    def clipped(self, lot, **options):
        self.size = tf.reduce_sum(lot.mask)
        return real_clipped(self, lot, **options)

    def noised(self, clipped, noise, update):
        return [g * (LOT / self.size) for g in real_noised(self, clipped, noise, update)]

    monkeypatch.setattr(update.Update, "clipped", clipped)
    monkeypatch.setattr(update.Update, "noised", noised)
    found, _ = replayed(**CASES["layer norm"])
    assert sum(name.startswith("trained weight") for name in found) == 6


@pytest.mark.slow
def test_running_averages_of_what_was_not_noised_are_seen(monkeypatch):
    """The layers' averages move by the lot's own sums, in place of the released ones."""
    real = noised_statistics.NoisedStatistics.joined

    def joined(self, *args):
        found = real(self, *args)
        self.own = [s / w for s, w in zip(found[0], found[2], strict=True)]
        return found

    move = noised_statistics.NoisedStatistics.update_averages
    monkeypatch.setattr(noised_statistics.NoisedStatistics, "joined", joined)
    monkeypatch.setattr(
        noised_statistics.NoisedStatistics,
        "update_averages",
        lambda self, released: move(self, self.own),
    )
    found, _ = replayed(**CASES["noised statistics"])
    assert found and all(name.startswith("constant weight") for name in found)


@pytest.mark.slow
def test_a_pull_back_of_what_was_not_noised_is_seen(monkeypatch):
    """gamma's and beta's gradients go through the statistics as they were before the noise."""
    real_clipped, real_pull_back = update.Update.clipped, update.pull_back
    kept = {}

    def clipped(self, lot, **options):
        found = real_clipped(self, lot, **options)
        weights = found.weights or [1.0] * len(found.sums)
        kept.update(
            (v.ref(), s / w) for v, s, w in zip(found.measured, found.sums, weights, strict=True)
        )
        return found

    monkeypatch.setattr(update.Update, "clipped", clipped)
    monkeypatch.setattr(
        update,
        "pull_back",
        lambda tape, statistics, of, trained: real_pull_back(
            tape, statistics, lambda v: kept[v.ref()], trained
        ),
    )
    found, _ = replayed(**CASES["public statistics and pull-back"])
    assert any(name.startswith("trained weight") for name in found)


@pytest.mark.slow
def test_a_layer_that_remembers_its_rows_is_seen():
    """Keras' own moving average would be rejected by name; one of another make is not."""

    class Remembers(keras.layers.Layer):
        def build(self, shape):
            self.mean = self.add_weight(name="mean", shape=shape[1:], trainable=False)

        def call(self, x, training=None):
            if training:
                self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(x, axis=0))
            return x

    found, _ = replayed(layers=lambda: dense(Remembers))
    assert len(found) == 1 and found[0].startswith("constant weight")


def test_a_statement_that_counts_rows_is_seen():
    first, second = {"statement": "of 12 rows", "x": 1.0}, {"statement": "of 13 rows", "x": 1.0}
    assert differences(first, second) == ["statement"]
    assert differences({"x": 0.0}, {"x": -0.0}) == ["x"]
    assert differences({"x": np.float32(1)}, {"x": np.float64(1)}) == ["x"]
    assert differences({"x": 1}, {}) == ["x"]
