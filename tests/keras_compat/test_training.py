"""Variables of optimizers, steps per execution, and variables of metrics."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.keras_compat import training
from tfdpnorm.keras_compat.training import (
    make_optimizer_variables,
    optimizer_variables,
)
from tfdpnorm.keras_compat.variables import KERAS_3, raw

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(amsgrad=True),
    "average": lambda: keras.optimizers.SGD(0.1, use_ema=True),
} | ({} if KERAS_3 else {"legacy": lambda: keras.optimizers.legacy.Adam()})


def build():
    hidden = [keras.layers.Dense(4), keras.layers.Activation("tanh")]
    return keras.Sequential([keras.Input((5,)), *hidden, keras.layers.Dense(3)])


def test_they_are_those_that_keras_makes():
    name = "average" if KERAS_3 else "legacy"
    found = []
    x = np.random.default_rng(1).normal(size=(40, 5)).astype(np.float32)
    for made_before in (False, True):
        keras.backend.clear_session()
        keras.utils.set_random_seed(0)
        model, optimizer = build(), OPTIMIZERS[name]()
        model.compile(optimizer, "mse")
        if made_before:
            make_optimizer_variables(optimizer, model.trainable_variables)
            make_optimizer_variables(optimizer, model.trainable_variables)
        model.fit(x, np.ones((40, 3)), epochs=2, verbose=0, shuffle=False)
        variables = optimizer.variables() if name == "legacy" else optimizer.variables
        variables = raw([v for v in variables if v is not optimizer.learning_rate])
        found.append([(v.name, v.shape, v.numpy().tolist()) for v in variables])
        found[-1].append(model.get_weights()[0].tolist())
        assert [v.name for v in optimizer_variables(optimizer)] == [v.name for v in variables]
    assert found[0] == found[1]


class Counted(training.BeginsWithinEpoch):
    """Not by inputs and outputs, for which Keras 3 would exchange the base of the class."""

    def __init__(self):
        super().__init__()
        self.head = keras.layers.Dense(2)

    def call(self, x):
        return self.head(x)


def looked_at(model, first, steps, epochs=2, count=5):
    """Runs `fit` from a step of the first epoch: (number, steps of each execution, weights)."""
    executions = []
    callback = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: executions.append([batch]),
        on_train_batch_end=lambda batch, logs: executions[-1].append(batch),
    )
    model.begin_within_epoch(first)
    x = tf.data.Dataset.from_tensors((tf.ones([2, 4]), tf.ones([2, 2]))).repeat()
    model.fit(x, epochs=epochs, steps_per_epoch=count, callbacks=[callback], verbose=0)
    return executions, int(keras_iterations(model))


def keras_iterations(model):
    return model.optimizer.iterations


@each(
    ("steps", "first", "executions"),
    [
        (1, 3, [[3, 3], [4, 4], *([n, n] for n in range(5))]),
        (3, 1, [[1, 3], [4, 4], [0, 2], [3, 4]]),
    ],
)
def test_fit_may_begin_within_an_epoch(steps, first, executions):
    model = Counted()
    model.compile("sgd", "mse", steps_per_execution=steps)
    found, made = looked_at(model, first, steps)
    assert found == executions and made == sum(last - begin + 1 for begin, last in executions)
    found, made = looked_at(model, 0, steps, epochs=1, count=2 * steps)  # whole ones after that
    assert found == [[0, steps - 1], [steps, 2 * steps - 1]]


@each("asked", [None, 3])
def test_steps_per_execution(asked):
    model = Counted()
    assert training.steps_per_execution(model) == 1
    model.compile("sgd", "mse", **({} if asked is None else {"steps_per_execution": asked}))
    assert training.steps_per_execution(model) == (asked or 1)
    for count in {1, asked or 1}:
        with training.exchanged_steps_per_execution(model, count):
            assert training.steps_per_execution(model) == count
        with pytest.raises(RuntimeError), training.exchanged_steps_per_execution(model, count):
            raise RuntimeError("halfway")
        assert training.steps_per_execution(model) == (asked or 1)
