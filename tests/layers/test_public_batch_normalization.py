"""PublicBatchNormalization against the formulas of its docstring, written out in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tests.each import each
from tfdpnorm.layers import (
    PublicBatchNormalization,
    PublicStatistics,
    joint_pass,
    record_pass,
    use_pass,
)

PRIVATE_ROWS, PUBLIC_ROWS = 3, 5

# Shape of a row, channel axis.
SHAPES = [
    ((4,), -1),
    ((3, 6), 1),
    ((3, 4, 2), -1),
    ((2, 3, 4, 2), -2),
]
MODES = ("public", "blend", "example", "lot")


def moments(rows, axis):
    """Mean and biased variance per channel, broadcastable against `rows`."""
    rows = np.asarray(rows, np.float64)
    axes = tuple(i for i in range(rows.ndim) if i != axis % rows.ndim)
    mean = rows.mean(axes, keepdims=True)
    return mean, ((rows - mean) ** 2).mean(axes, keepdims=True)


def blended(row, public_mean, public_variance, m, axis):
    own_mean, own_variance = moments(row, axis)
    mean = (m * public_mean + own_mean) / (m + 1)
    variance = (m * public_variance + own_variance) / (m + 1)
    return mean, variance + m * (own_mean - public_mean) ** 2 / (m + 1) ** 2


def reference(mode, private, public, axis, epsilon=1e-3, gamma=None, beta=None):
    """What mode `mode` makes of the private rows, in float64, row after row."""
    private, public = np.asarray(private, np.float64), np.asarray(public, np.float64)
    shape = [-1 if i == axis % private.ndim else 1 for i in range(private.ndim)]
    gamma = 1.0 if gamma is None else np.asarray(gamma, np.float64).reshape(shape)
    beta = 0.0 if beta is None else np.asarray(beta, np.float64).reshape(shape)
    outputs = []
    for i in range(len(private)):
        row = private[i : i + 1]
        if mode == "public":
            mean, variance = moments(public, axis)
        elif mode == "blend":
            mean, variance = blended(row, *moments(public, axis), len(public), axis)
        elif mode == "example":
            mean, variance = moments(np.concatenate([row, public]), axis)
        else:
            mean, variance = moments(np.concatenate([private, public]), axis)
        outputs.append(gamma * (row - mean) / np.sqrt(variance + epsilon) + beta)
    return np.concatenate(outputs)


def run(layer, private, public):
    """The private rows through `layer` in the passes that its mode asks for, and the statistics."""
    if layer.statistics == "lot":
        with joint_pass():
            return layer(np.concatenate([private, public]))[: len(private)], None
    if layer.statistics == "example":
        outputs = []
        for row in private:
            with joint_pass():
                outputs.append(layer(np.concatenate([row[np.newaxis], public]))[:1])
        return tf.concat(outputs, 0), None
    statistics = PublicStatistics()
    with record_pass(statistics):
        layer(public)
    with use_pass(statistics):
        return layer(private), statistics


def rows_of(rng, shape, dtype="float32", loc=1.0, scale=2.0):
    private = rng.normal(loc, scale, (PRIVATE_ROWS, *shape)).astype(dtype)
    # The public rows come from elsewhere than the private ones, or the modes were hard to tell.
    public = rng.normal(loc - scale, 0.5 * scale, (PUBLIC_ROWS, *shape)).astype(dtype)
    return private, public


def give_parameters(layer, rng):
    for weight in (layer.gamma, layer.beta):
        weight.assign(rng.normal(1.0, 0.5, weight.shape))


@each("mode", MODES)
@each("shape,axis", SHAPES)
def test_follows_the_formulas(mode, shape, axis, rng):
    private, public = rows_of(rng, shape)
    layer = PublicBatchNormalization(axis=axis, statistics=mode)
    layer.build((None, *shape))
    give_parameters(layer, rng)
    outputs, _ = run(layer, private, public)
    expected = reference(
        mode, private, public, axis, gamma=layer.gamma.numpy(), beta=layer.beta.numpy()
    )
    assert outputs.shape == private.shape
    np.testing.assert_allclose(outputs, expected, atol=2e-5, rtol=2e-5)


@each("epsilon", [1e-7, 0.5])
@each("scale", [True, False])
@each("center", [True, False])
def test_scale_center_and_epsilon(epsilon, scale, center, rng):
    private, public = rows_of(rng, (4, 3))
    layer = PublicBatchNormalization(
        epsilon=epsilon,
        scale=scale,
        center=center,
        gamma_initializer=tf.constant_initializer(3.0),
        beta_initializer=tf.constant_initializer(-2.0),
    )
    outputs, _ = run(layer, private, public)
    expected = reference(
        "public",
        private,
        public,
        -1,
        epsilon,
        gamma=np.full(3, 3.0 if scale else 1.0),
        beta=np.full(3, -2.0 if center else 0.0),
    )
    np.testing.assert_allclose(outputs, expected, atol=5e-5, rtol=5e-5)
    names = [weight.name.split("/")[-1].split(":")[0] for weight in layer.trainable_weights]
    assert names == ["gamma"] * scale + ["beta"] * center


@each("mode", MODES)
def test_float32_far_from_zero(mode, rng):
    private, public = rows_of(rng, (5, 2), loc=1e3, scale=0.1)
    layer = PublicBatchNormalization(statistics=mode, epsilon=1e-6)
    outputs, _ = run(layer, private, public)
    # E[z^2] - mean^2 in float32 would be wrong by several times the variance here.
    np.testing.assert_allclose(outputs, reference(mode, private, public, -1, 1e-6), atol=2e-2)


@each("mode", MODES)
def test_half_precision_takes_moments_in_float32(mode, rng, set_policy):
    half, atol = "float16", 6e-3
    set_policy(f"mixed_{half}")
    private, public = (tf.cast(rows, half) for rows in rows_of(rng, (7, 2), "float32", 1002.0, 4.0))
    layer = PublicBatchNormalization(statistics=mode)
    outputs, _ = run(layer, private.numpy(), public.numpy())
    assert outputs.dtype == half
    assert all(weight.dtype == tf.float32 for weight in layer.weights)
    wide_private, wide_public = (tf.cast(rows, tf.float64).numpy() for rows in (private, public))
    expected = reference(mode, wide_private, wide_public, -1)
    np.testing.assert_allclose(tf.cast(outputs, tf.float64), expected, atol=atol)
    # The tolerance tells: a mean that is merely rounded to half precision is already outside.
    mean, variance = moments(wide_public, -1)
    rounding = np.abs(tf.cast(tf.cast(mean, half), tf.float64) - mean) / np.sqrt(variance)
    assert rounding.max() > atol


@each("mode", MODES)
def test_inference_without_public_rows(mode, rng):
    private, public = rows_of(rng, (4, 4, 3))
    layer = PublicBatchNormalization(statistics=mode)
    statistics = PublicStatistics()
    with record_pass(statistics):
        layer(public)
    statistics.store()
    assert float(layer.public_rows) == PUBLIC_ROWS
    expected = reference("public" if mode == "public" else "blend", private, public, -1)
    np.testing.assert_allclose(layer(private), expected, atol=2e-5, rtol=2e-5)
    np.testing.assert_allclose(layer(private, training=False), expected, atol=2e-5, rtol=2e-5)


def test_use_pass_wants_what_was_recorded(rng):
    _, public = rows_of(rng, (3,))
    layer = PublicBatchNormalization(name="twice")
    statistics = PublicStatistics()
    with record_pass(statistics):
        layer(public)
    with use_pass(statistics):
        layer(public)
        with pytest.raises(ValueError, match="'twice'.*got 1"):
            layer(public)


def test_each_call_of_a_layer_has_its_own_moments(rng):
    private, public = rows_of(rng, (3,))
    layer = PublicBatchNormalization(name="twice")
    statistics = PublicStatistics()
    with record_pass(statistics):
        layer(public)
        layer(public * 5.0 + 1.0)
    with use_pass(statistics):
        first, second = layer(private), layer(private)
    np.testing.assert_allclose(first, reference("public", private, public, -1), atol=1e-5)
    expected = reference("public", private, public * 5.0 + 1.0, -1)
    np.testing.assert_allclose(second, expected, atol=1e-5)
    with pytest.raises(ValueError, match="'twice'.*got 2"):
        statistics.store()
