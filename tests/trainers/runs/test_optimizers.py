"""The optimizers of experiments, against Keras' own classes."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from trainers.davody import cells as davody
from trainers.runs.optimizers import make_optimizer
from trainers.specs.training import OPTIMIZERS, SCHEDULES


def spec(**fields):
    return davody.spec("digits", "none", 1.0, **fields)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_takes_every_schedule(name, schedule):
    one = spec(optimizer=name, learning_rate_schedule=schedule)
    optimizer = make_optimizer(one, 4, num_examples=1437)
    assert type(optimizer).__name__.lower() == name.removeprefix("keras_")
    assert (type(optimizer).__module__.partition(".")[0] == "tfdpnorm") == (name == "nadam")
    assert isinstance(optimizer, keras.optimizers.Optimizer)  # no legacy one: Keras 3 has none
    variable = tf.Variable([1.0, -1.0])
    moved = []
    for _ in range(5):
        before = variable.numpy()
        optimizer.apply_gradients([(tf.constant([0.3, -2.0]), variable)])
        moved.append(np.abs(variable.numpy() - before).max())
    assert np.all(np.isfinite(moved)) and moved[0] > 0
    assert (moved[4] < 1e-6) == (
        schedule in ("cosine", "linear") and name != "sgd"
    )  # but for momentum
