"""The gradient through public statistics, against the gradient of the model written out."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.layers import PublicBatchNormalization

EPSILON = 1e-3


def network(scale, center, statistics_gradient):
    def norm():
        return PublicBatchNormalization(
            scale=scale, center=center, epsilon=EPSILON, statistics_gradient=statistics_gradient
        )

    layers = [
        keras.layers.Dense(6, use_bias=False),
        norm(),
        keras.layers.Activation("tanh"),
        keras.layers.Dense(4),
        norm(),
        keras.layers.Activation("tanh"),
        keras.layers.Dense(3),
    ]
    model = keras.Sequential([keras.Input((5,)), *layers])
    rng = np.random.default_rng(4)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape) * 0.7)
    return model


def gradients_written_out(model, public, x, y):
    """By one tape over both streams; nothing here but matrices and moments."""
    dense = [layer for layer in model.layers if isinstance(layer, keras.layers.Dense)]
    norms = [layer for layer in model.layers if isinstance(layer, PublicBatchNormalization)]
    with tf.GradientTape() as tape:
        rows, shadow = tf.constant(x), tf.constant(public)
        for layer, norm in zip(dense, [*norms, None], strict=True):
            bias = 0.0 if layer.bias is None else layer.bias
            rows, shadow = rows @ layer.kernel + bias, shadow @ layer.kernel + bias
            if norm is None:
                continue
            mean = tf.reduce_mean(shadow, 0)
            deviation = tf.sqrt(tf.reduce_mean((shadow - mean) ** 2, 0) + EPSILON)
            rows, shadow = (
                tf.tanh((z - mean) / deviation * norm.gamma + norm.beta) for z in (rows, shadow)
            )
        logits = tf.reduce_logsumexp(rows, 1) - tf.gather(rows, y, batch_dims=1)
        loss = tf.reduce_mean(logits)
    return [g.numpy() for g in tape.gradient(loss, model.trainable_variables)]


@pytest.fixture
def step_difference(private, data, public, cross_entropy):
    """Returns a function to the difference from the written-out step, relative to the step."""

    def run(engine="per_example", gradient="full", scale=True, center=True, batch=None):
        model = network(scale, center, gradient)
        untrained = [v.numpy().copy() for v in model.non_trainable_variables[:2]]
        expected = gradients_written_out(model, public, *data)
        before = [v.numpy().copy() for v in model.trainable_variables]
        trained = private(
            model,
            engine=engine,
            public_batch=public,
            expected_batch_size=40,
            steps=1,
            noise_multiplier=0.0,
            l2_norm_clip=np.inf,
            physical_batch_size=batch,
        )
        trained.compile(keras.optimizers.SGD(1.0), cross_entropy)
        trained.fit(*data, verbose=0)
        actual = [b - v.numpy() for b, v in zip(before, model.trainable_variables, strict=True)]
        if not (scale and center):  # gammas and betas that are not learnt stay
            assert np.ptp(untrained[0]) == np.ptp(model.non_trainable_variables[0]) == 0
        flat = [np.concatenate([g.ravel() for g in parts]) for parts in (actual, expected)]
        return np.linalg.norm(flat[0] - flat[1]) / np.linalg.norm(flat[1])

    return run


@pytest.mark.slow_cases("per_example-*")
@pytest.mark.parametrize(
    ("engine", "scale", "center", "batch"),
    [("per_example", False, True, 16), ("book_keeping", True, False, None)],
)
def test_full_is_the_gradient_of_the_public_model(engine, scale, center, batch, step_difference):
    assert step_difference(engine, "full", scale, center, batch) < 1e-5


def test_stop_is_another_gradient(step_difference):
    assert step_difference(gradient="stop") > 0.05
