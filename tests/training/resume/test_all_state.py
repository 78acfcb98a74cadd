"""All that a step uses is in the checkpoint.

With a seed, noise and batches follow from the number of updates spent. So a run that is resumed
where nothing was lost ends as one that went on, to the bit.
"""

import shutil

import numpy as np
import pytest
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.layers import VariationalDropoutDense
from tfdpnorm.training import PrivacyNoiseAsDropout, WeightAverage

_LEGACY = None if KERAS_3 else keras.optimizers.legacy
_KINDS = (keras.optimizers.Optimizer, *([] if KERAS_3 else [_LEGACY.Optimizer]))
_schedule = keras.optimizers.schedules


def _two_optimizers():
    new = keras.optimizers
    map_of = new.OptimizerMap(new.Adam(0.01), {".*kernel": new.SGD(0.1, momentum=0.9)})
    return new.MultiOptimizer(map_of)


def optimizers():
    """All optimizers of Keras, by name, and what their options add; functions that make them."""
    found = {}
    for module in (keras.optimizers, *([] if KERAS_3 else [_LEGACY])):
        where = "" if module is keras.optimizers else "legacy-"
        for name in sorted(vars(module)):
            cls = getattr(module, name)
            if isinstance(cls, type) and issubclass(cls, _KINDS) and cls not in _KINDS:
                found[where + name] = cls
    found.pop("LossScaleOptimizer", None)  # which is refused
    old, new = _LEGACY, keras.optimizers
    of_legacy = {
        "legacy-momentum": lambda: old.SGD(0.1, momentum=0.9),
        "legacy-amsgrad": lambda: old.Adam(amsgrad=True, decay=0.1),
        "legacy-schedule": lambda: old.Nadam(0.01),
    }
    of_keras_3 = {"MultiOptimizer": _two_optimizers}
    return (
        found
        | (of_keras_3 if KERAS_3 else of_legacy)
        | {
            "average": lambda: new.Nadam(use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=5),
            "decay": lambda: new.Adam(weight_decay=0.1, clipnorm=0.5, amsgrad=True),
            "momentum": lambda: new.SGD(0.1, momentum=0.9, nesterov=True, use_ema=True),
            "centered": lambda: new.RMSprop(0.01, momentum=0.9, centered=True),
            "schedule": lambda: new.SGD(_schedule.ExponentialDecay(0.1, 3, 0.5), momentum=0.9),
            "cosine": lambda: new.Adam(_schedule.CosineDecayRestarts(0.1, 4)),
        }
    )


OPTIMIZERS = optimizers()
_QUICK = ("Nadam", "MultiOptimizer")


class CopyAfter(keras.callbacks.Callback):
    """Copies the folder of a run before its next update, as a crash there would leave it."""

    def __init__(self, update, run, copy):
        super().__init__()
        self._update, self._folders = update, (run, copy)

    def on_train_batch_begin(self, batch, logs=None):
        if self.model.ledger.state.position == self._update:
            shutil.copytree(*self._folders)


def dense():
    return keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(4, activation="tanh"),
            keras.layers.Dense(3),
        ]
    )


def run(folder, data, build, optimizer, loss, callbacks=(), compiled=None, **settings):
    """A private training in `folder`, to its end."""
    keras.utils.set_random_seed(3)
    settings = {
        "num_examples": 40,
        "expected_batch_size": 10,
        "steps": 12,
        "l2_norm_clip": 1.0,
        "noise_multiplier": 1.0,
        "delta": 1e-5,
        "checkpoint_every": 3,
        **settings,
    }
    private = private_of(build(), run_dir=folder, resume=True, **settings)
    try:
        private.compile(optimizer, loss, **(compiled or {}))
        private.fit(*data, verbose=0, callbacks=list(callbacks))
    finally:
        private.ledger.close()
    return private


def check_resumes_to_the_bit(tmp_path, data, loss, build=dense, optimizer="adam", **settings):
    make = OPTIMIZERS.get(optimizer, lambda: optimizer)
    settings = {"insecure_seed": 5, **settings}
    copying, average = CopyAfter(6, tmp_path / "whole", tmp_path / "again"), WeightAverage(0.9)
    whole = run(tmp_path / "whole", data, build, make(), loss, [copying, average], **settings)
    again_average = WeightAverage(0.9)
    again = run(tmp_path / "again", data, build, make(), loss, [again_average], **settings)
    assert again.ledger.state.resumes == 1
    assert (again.ledger.updates, again.ledger.state.lost_updates) == (12, 0)
    check_equal(whole, again)
    with average.applied(), again_average.applied():
        check_equal(whole, again)


def check_equal(whole, again):
    for expected, found in zip(whole.model.weights, again.model.weights, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.slow_cases(*(name for name in OPTIMIZERS if name not in _QUICK))
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.filterwarnings("error:Expected the optimizer and the callbacks")
def test_every_optimizer(name, tmp_path, data, cross_entropy):
    check_resumes_to_the_bit(tmp_path, data, cross_entropy, optimizer=name)


def test_all_optimizers_are_looked_at():
    stack = {"Muon", "Lamb"} if KERAS_3 else {"legacy-Ftrl"}
    assert {"Nadam", "Lion", "Adafactor", "AdamW", *stack} <= set(OPTIMIZERS)
    assert len(OPTIMIZERS) == (21 if KERAS_3 else 28)


@pytest.mark.slow
def test_several_steps_an_execution_in_several_physical_batches(tmp_path, data, cross_entropy):
    settings = {"physical_batch_size": 4, "compiled": {"steps_per_execution": 2}}
    check_resumes_to_the_bit(
        tmp_path, data, cross_entropy, optimizer="Nadam", checkpoint_every=2, **settings
    )


@pytest.mark.slow
def test_noise_in_the_place_of_dropout_follows_the_updates(tmp_path, data, cross_entropy):
    """A zeta that follows from the number of updates that the weights have seen."""

    def build():
        layer = VariationalDropoutDense(4, noise="public", num_examples=40)
        return keras.Sequential([keras.Input((5,)), layer, keras.layers.Dense(3)])

    rate = keras.optimizers.schedules.InverseTimeDecay(0.4, 1, 1.0)
    copying = CopyAfter(6, tmp_path / "whole", tmp_path / "again")
    for name, callbacks in (("whole", [copying]), ("again", [])):
        sgd = keras.optimizers.SGD(rate)
        callbacks = [*callbacks, PrivacyNoiseAsDropout()]
        private = run(tmp_path / name, data, build, sgd, cross_entropy, callbacks)
        assert float(private.model.layers[0].noise_stddev) == pytest.approx(0.4 / 12 / 10)
    assert private.ledger.state.resumes == 1
