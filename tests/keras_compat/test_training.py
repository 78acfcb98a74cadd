"""Variables of optimizers, steps per execution, and variables of metrics."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat import training
from tfdpnorm.keras_compat.training import (
    is_of_tensorflow_privacy,
    make_optimizer_variables,
    optimizer_variables,
    rate_variables,
    scales_losses,
)

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(amsgrad=True),
    "average": lambda: keras.optimizers.SGD(0.1, use_ema=True),
    "legacy": lambda: keras.optimizers.legacy.Adam(),
}


def build():
    hidden = [keras.layers.Dense(4), keras.layers.Activation("tanh")]
    return keras.Sequential([keras.Input((5,)), *hidden, keras.layers.Dense(3)])


@pytest.mark.quick_cases("sgd")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_they_are_those_that_keras_makes(name):
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
        found.append([(v.name, v.shape, v.numpy().tolist()) for v in variables])
        found[-1].append(model.get_weights()[0].tolist())
        assert [v.name for v in optimizer_variables(optimizer)] == [v.name for v in variables]
    assert found[0] == found[1]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_learning_rate_is_a_variable_that_can_be_assigned(name):
    optimizer = OPTIMIZERS[name]()
    make_optimizer_variables(optimizer, build().trainable_variables)
    before = [float(v) for v in rate_variables(optimizer)]
    rate = float(optimizer.learning_rate)
    assert rate in before
    rate_variables(optimizer)[before.index(rate)].assign(0.25)
    assert float(optimizer.learning_rate) == 0.25


def test_a_schedule_leaves_no_rate_variable():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    assert rate_variables(keras.optimizers.SGD(schedule)) == []


def test_optimizers_that_are_not_plain_are_known():
    scaled = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD())
    assert scales_losses(scaled) and not scales_losses(keras.optimizers.SGD())
    assert not is_of_tensorflow_privacy(keras.optimizers.SGD())


def sequential(*layers):
    return keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(2)])


@pytest.mark.parametrize("asked", [None, 3])
def test_steps_per_execution(asked):
    model = sequential()
    assert training.steps_per_execution(model) == 1
    model.compile("sgd", "mse", steps_per_execution=asked)
    assert training.steps_per_execution(model) == (asked or 1)
    for count in {1, asked or 1}:
        with training.exchanged_steps_per_execution(model, count):
            assert training.steps_per_execution(model) == count
        with pytest.raises(RuntimeError), training.exchanged_steps_per_execution(model, count):
            raise RuntimeError("halfway")
        assert training.steps_per_execution(model) == (asked or 1)


def test_metrics_make_their_variables_once():
    model = sequential()
    model.compile("sgd", "mse", weighted_metrics=["accuracy"])
    targets = tf.TensorSpec([None, 2])
    for _ in range(2):
        training.make_metric_variables(model, model.output, targets)
        assert model.compiled_metrics.built
    several = keras.Model(model.input, [model.output, model.output])
    several.compile("sgd", "mse", weighted_metrics=["accuracy"])
    training.make_metric_variables(several, several.output, [targets, targets])
    assert not several.compiled_metrics.built
