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
from tfdpnorm.training import WeightAverage


def _two_optimizers():
    new = keras.optimizers
    map_of = new.OptimizerMap(new.Adam(0.01), {".*kernel": new.SGD(0.1, momentum=0.9)})
    return new.MultiOptimizer(map_of)


OPTIMIZERS = {
    "Nadam": keras.optimizers.Nadam,
    **({"MultiOptimizer": _two_optimizers} if KERAS_3 else {}),
    "average": lambda: keras.optimizers.RMSprop(
        momentum=0.9, centered=True, use_ema=True, ema_overwrite_frequency=5
    ),
    "schedule": lambda: keras.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5), momentum=0.9
    ),
}


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
        "steps": 12,
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


@pytest.mark.slow_cases("average", "schedule")
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.filterwarnings("error:Expected the optimizer and the callbacks")
def test_every_optimizer(name, tmp_path, data, cross_entropy):
    check_resumes_to_the_bit(tmp_path, data, cross_entropy, optimizer=name)
