"""The gradient through the public statistics, against plain back-propagation."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.layers.statistics_gradients import gradients, random_norm
from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.layers import PublicBatchNormalization, PublicStatistics, pull_back, record_pass


def network(scale=True, center=True, statistics_gradient="full"):
    def norm():
        return random_norm(scale=scale, center=center, statistics_gradient=statistics_gradient)

    return keras.Sequential(
        [
            keras.Input((5, 5, 2)),
            keras.layers.Conv2D(3, 3),
            norm(),
            keras.layers.Activation("tanh"),
            keras.layers.Flatten(),
            keras.layers.Dense(4),
            norm(),
            keras.layers.Activation("tanh"),
            keras.layers.Dense(3),
            norm(),
        ]
    )


def data(rng, dtype):
    x = rng.normal(size=(4, 5, 5, 2)).astype(dtype)
    y = rng.normal(size=(4, 3)).astype(dtype)
    public = rng.normal(0.3, 1.5, (6, 5, 5, 2)).astype(dtype)
    return x, y, public


@each("scale,center", [(True, True), (True, False), (False, True)])
def test_completes_the_plain_gradient(scale, center, rng, set_policy):
    set_policy("float64")
    model = network(scale, center)
    whole, direct, pulled = gradients(model, *data(rng, "float64"))
    size = max(float(tf.reduce_max(tf.abs(g))) for g in whole)
    kernels = 0
    for variable, w, d, p in zip(model.trainable_variables, whole, direct, pulled, strict=True):
        assert p.shape == variable.shape
        np.testing.assert_allclose(d + p, w, atol=1e-10 * size, err_msg=variable.name)
        kernels += float(tf.reduce_max(tf.abs(p))) > 1e-2 * size
    assert kernels >= 2  # The pulled-back part is not a rounding matter.


def test_inside_a_tf_function(rng, set_policy):
    set_policy("float64")
    model = network()
    x, y, public = data(rng, "float64")
    _, direct, pulled = gradients(model, x, y, public)
    released = {v.ref(): g for v, g in zip(trainable_variables(model), direct, strict=True)}

    @tf.function
    def compiled():
        statistics = PublicStatistics()
        with tf.GradientTape() as tape, record_pass(statistics):
            model(public, training=True)
        return pull_back(tape, statistics, lambda v: released[v.ref()], trainable_variables(model))

    for one, other in zip(pulled, compiled(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_stop_gives_zeros(rng):
    model = network(statistics_gradient="stop")
    _, direct, pulled = gradients(model, *data(rng, "float32"))
    assert all(not np.any(p) for p in pulled)
    assert [p.shape for p in pulled] == [d.shape for d in direct]


@each("statistics_gradient", ["full", "stop"])
def test_a_layer_called_twice(statistics_gradient, rng):
    norm = PublicBatchNormalization(name="twice", statistics_gradient=statistics_gradient)
    inputs = keras.Input((3,))
    hidden = norm(keras.layers.Dense(3)(inputs))
    model = keras.Model(inputs, norm(keras.layers.Dense(3)(hidden)))
    public = rng.normal(size=(5, 3)).astype("float32")
    statistics = PublicStatistics()
    with tf.GradientTape() as tape, record_pass(statistics):
        model(public)
    if statistics_gradient == "full":
        with pytest.raises(ValueError, match="'twice'.*got 2"):
            pull_back(tape, statistics, tf.ones_like, model.trainable_variables)
    else:
        for zeros in pull_back(tape, statistics, tf.ones_like, model.trainable_variables):
            assert not np.any(zeros)
