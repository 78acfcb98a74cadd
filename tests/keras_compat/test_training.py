"""Steps per execution, and fits that begin within an epoch."""

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.keras_compat import training


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
