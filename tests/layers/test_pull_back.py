"""The gradient through the public statistics, against plain back-propagation and differences."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.layers.statistics_gradients import gradients, norms_of, random_norm, streams
from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.layers import PublicBatchNormalization, PublicStatistics, pull_back, record_pass


def network(scale=True, center=True, statistics_gradient="full", use_bias=True):
    def norm():
        return random_norm(scale=scale, center=center, statistics_gradient=statistics_gradient)

    return keras.Sequential(
        [
            keras.Input((5, 5, 2)),
            keras.layers.Conv2D(3, 3, use_bias=use_bias),
            norm(),
            keras.layers.Activation("tanh"),
            keras.layers.Flatten(),
            keras.layers.Dense(4, use_bias=use_bias),
            norm(),
            keras.layers.Activation("tanh"),
            keras.layers.Dense(3, use_bias=use_bias),
            norm(),
        ]
    )


def data(rng, dtype):
    x = rng.normal(size=(4, 5, 5, 2)).astype(dtype)
    y = rng.normal(size=(4, 3)).astype(dtype)
    public = rng.normal(0.3, 1.5, (6, 5, 5, 2)).astype(dtype)
    return x, y, public


@each("scale", [True, False])
@each("center", [True, False])
@each("policy,tolerance", [("float64", 1e-10), ("float32", 1e-4)])
def test_completes_the_plain_gradient(scale, center, policy, tolerance, rng, set_policy):
    set_policy(policy)
    model = network(scale, center)
    whole, direct, pulled = gradients(model, *data(rng, policy))
    size = max(float(tf.reduce_max(tf.abs(g))) for g in whole)
    kernels = 0
    for variable, w, d, p in zip(model.trainable_variables, whole, direct, pulled, strict=True):
        assert p.shape == variable.shape
        np.testing.assert_allclose(d + p, w, atol=tolerance * size, err_msg=variable.name)
        kernels += float(tf.reduce_max(tf.abs(p))) > 1e-2 * size
    assert kernels >= 2  # The pulled-back part is not a rounding matter.


def test_agrees_with_finite_differences(rng, set_policy):
    set_policy("float64")
    model = network()
    x, y, public = data(rng, "float64")
    _, direct, pulled = gradients(model, x, y, public)
    direction = [rng.normal(size=v.shape) for v in model.trainable_variables]
    slope = sum(np.sum((d + p) * u) for d, p, u in zip(direct, pulled, direction, strict=True))
    start = model.get_weights()

    def loss_at(step):
        model.set_weights(start)
        for variable, u in zip(model.trainable_variables, direction, strict=True):
            variable.assign_add(step * u)
        return float(streams(model, x, y, public)[0])

    step = 1e-5
    difference = (loss_at(step) - loss_at(-step)) / (2 * step)
    assert slope == pytest.approx(difference, rel=1e-6)


def test_the_scale_of_weights_before_a_norm_does_not_matter(rng, set_policy):
    set_policy("float64")
    model = network(use_bias=False)
    for layer in norms_of(model):
        layer.epsilon = 1e-12
    _, direct, pulled = gradients(model, *data(rng, "float64"))
    for kernel, d, p in zip(model.trainable_variables, direct, pulled, strict=True):
        if "kernel" not in kernel.name:
            continue
        stopped = abs(float(tf.reduce_sum(kernel * d)))
        full = abs(float(tf.reduce_sum(kernel * (d + p))))
        assert stopped > 1e-2 and full < 1e-6 * stopped


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


def test_is_linear_in_the_released_gradients(rng):
    """So that noise in them of mean 0 stays of mean 0."""
    model = network()
    x, y, public = data(rng, "float32")
    with tf.GradientTape(persistent=True) as tape:
        _, statistics = streams(model, x, y, public)

    def pulled(seed_one, seed_two):
        def gradient_of(variable):
            one = np.random.default_rng([seed_one, *variable.shape]).normal(size=variable.shape)
            two = np.random.default_rng([seed_two, *variable.shape]).normal(size=variable.shape)
            return tf.constant(one * (seed_one > 0) + two * (seed_two > 0), tf.float32)

        return pull_back(tape, statistics, gradient_of, model.trainable_variables)

    for one, two, both in zip(pulled(1, 0), pulled(0, 2), pulled(1, 2), strict=True):
        np.testing.assert_allclose(one + two, both, atol=1e-4)


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
        with pytest.raises(ValueError, match="Expected one call of layer 'twice'.*got 2"):
            pull_back(tape, statistics, tf.ones_like, model.trainable_variables)
    else:
        for zeros in pull_back(tape, statistics, tf.ones_like, model.trainable_variables):
            assert not np.any(zeros)


def test_variables_that_no_statistic_reads_get_zeros(rng):
    model = network()
    x, y, public = data(rng, "float32")
    with tf.GradientTape() as tape:
        _, statistics = streams(model, x, y, public)
    last = norms_of(model)[-1]
    for zeros in pull_back(tape, statistics, tf.ones_like, [last.gamma, last.beta]):
        assert not np.any(zeros)
