"""The rule of variational dropout against the loop, each row with the noise that it has there."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.invariants import assert_nonfinite_row_counts_as_zero, side_by_side
from tests.gradients.looped_reference import (
    assert_equals_the_loop,
    double_precision,
    example_rows,
    looped_sum,
    loss_function,
    relative_error,
)
from tfdpnorm.gradients import book_keeping
from tfdpnorm.gradients.rules.variational_dropout import ScaledOuterSum, TiedOuterSum
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.layers import VariationalDropoutConv2D, VariationalDropoutDense
from tfdpnorm.layers import variational_dropout as module

KINDS = {
    "weight": {},
    "neuron": {"alpha_per": "neuron"},
    "layer": {"alpha_per": "layer"},
    "fixed": {"noise": "fixed"},
    "public": {"noise": "public"},
    # Of some weights alpha is less, of others it would be more.
    "bounded weight": {"max_alpha": 0.1},
    "bounded neuron": {"alpha_per": "neuron", "max_alpha": 0.1},
    "bounded public": {"noise": "public", "max_alpha": 0.1},
}


class _OfTheRow(module.VariationalDropout):
    """Its noise is a function of the mean, so that a row has the same in a batch and by itself."""

    def drawn(self, mean, variance):
        noise = tf.sin(100 * tf.stop_gradient(tf.cast(mean, variance.dtype)))
        return super_drawn(self, mean, variance, noise)


def super_drawn(layer, mean, variance, noise):
    class Given:
        def normal(self, shape, dtype):
            del shape
            return tf.cast(noise, dtype)

    kept, layer._generator = layer._generator, Given()
    try:
        return ORIGINAL(layer, mean, variance)
    finally:
        layer._generator = kept


ORIGINAL = module.VariationalDropout.drawn


@pytest.fixture(autouse=True)
def noise_of_rows(monkeypatch):
    monkeypatch.setattr(module.VariationalDropout, "drawn", _OfTheRow.drawn)


def set_noise(model):
    rng = np.random.default_rng(3)
    for variable in model.weights:
        if "noise_stddev" in variable.name:
            variable.assign(0.4)
        elif "noise" in variable.name:
            variable.assign(variable + rng.uniform(-0.5, 2, variable.shape))


def dense(**options):
    hidden = VariationalDropoutDense(6, activation="tanh", **options)
    return keras.Sequential([hidden, VariationalDropoutDense(3, **options)])


def convolution(**options):
    layer = VariationalDropoutConv2D(3, (2, 3), strides=2, padding="same", **options)
    end = VariationalDropoutDense(2, use_bias=False, **options)
    return keras.Sequential([layer, keras.layers.Flatten(), end])


def noisy(*cases):
    model = side_by_side(*cases)
    set_noise(model)
    return model


def test_dense_equals_the_loop():
    """Of every kind, on further axes, and called twice."""
    with double_precision():
        cases = [((5,), dense(**kind)) for kind in KINDS.values()]
        cases += [((2, 3), dense(**KINDS[kind])) for kind in ("weight", "fixed")]
        for kind in ("weight", "layer"):
            twice = VariationalDropoutDense(4, activation="tanh", **KINDS[kind])
            cases.append(((4,), keras.Sequential([twice, twice])))
        assert_equals_the_loop(noisy(*cases), counts=(0, 1, 4), tolerance=1e-6)


def test_convolution_equals_the_loop():
    with double_precision():
        cases = [((5, 4, 2), convolution(**kind)) for kind in KINDS.values()]
        if not KERAS_3:  # which has no axes beside those of the images
            cases += [((2, 4, 3, 2), convolution(**KINDS[kind])) for kind in ("weight", "fixed")]
        assert_equals_the_loop(noisy(*cases), counts=(0, 3), tolerance=1e-6)


def test_testing_within_training():
    """A call with training=False, whose weights are the means."""
    with double_precision():
        inputs = keras.Input([4])
        x = VariationalDropoutDense(4, activation="tanh")(inputs, training=False)
        model = keras.Model(inputs, VariationalDropoutDense(2)(x))
        set_noise(model)
        trained = [v for v in model.trainable_variables if "variance" not in v.name]
        rows, loss_fn = example_rows(model, 5), loss_function(model)
        found = book_keeping(model, loss_fn, rows, trained, 0.05).gradients
        expected = looped_sum(loss_fn, rows, trained, 0.05)
        assert relative_error([g.numpy() for g in found], expected) < 1e-6


def test_half_precision_is_near_the_loop():
    keras.mixed_precision.set_global_policy("mixed_float16")
    model = noisy(((5,), dense()), ((5,), dense(**KINDS["fixed"])))
    assert_equals_the_loop(model, counts=(3,), tolerance=0.005)


@each("kind, policy", [("weight", "float32"), ("weight", "mixed_float16"), ("fixed", "float32")])
def test_rows_stay_within_the_clipping_norm(kind, policy):
    """Each row by itself, through inputs and noise of all sizes."""
    keras.mixed_precision.set_global_policy(policy)
    model = noisy(((5,), dense(**KINDS[kind])))
    loss_fn = loss_function(model)
    rng = np.random.default_rng(0)
    for size in (1e-30, 1e-4, 1.0, 1e4, 1e18, 1e25):
        x = tf.constant(size * rng.normal(size=(1, 5)), tf.float32)
        y = tf.constant(rng.normal(size=(1, 2)), tf.float32)
        rows = (x, y, tf.ones([1]), tf.ones([1]))
        found = book_keeping(model, loss_fn, rows, model.trainable_variables, 0.01).gradients
        norm = np.sqrt(sum(np.square(np.float64(g)).sum() for g in found))
        assert norm <= 0.01 * (1 + 1e-6), size


@each("value", [np.inf, np.nan, 1e30])
def test_a_row_that_is_not_finite_counts_as_zero(value):
    assert_nonfinite_row_counts_as_zero(noisy(((5,), dense())), value)


def test_scaled_products_beyond_the_range_of_float32():
    """Norms cover what the factors shrink or raise; what overflows before counts as infinite."""
    rng = np.random.default_rng(0)
    a, b, scale = (rng.normal(size=s) for s in ((6, 4), (6, 3), (4, 3)))
    expected = np.square(a[:, :, None] * b[:, None] * scale).sum((1, 2))
    for of_a, of_b, of_scale in ((1, 1, 1), (1e-25, 1e25, 1), (1e15, 1e5, 1e-19), (1e-20, 1, 1e19)):
        parts = [tf.constant(x * f, tf.float32) for x, f in zip((a, b), (of_a, of_b), strict=True)]
        found = ScaledOuterSum(*parts, tf.constant(scale * of_scale, tf.float32)).squared_norms()
        factor = (of_a * of_b * of_scale) ** 2
        np.testing.assert_allclose(found, expected * factor, rtol=1e-4)
        assert np.all(found >= expected * factor * (1 - 1e-6))
    too_long = ScaledOuterSum(tf.fill([1, 4], 1e20), tf.fill([1, 3], 1e20), tf.fill([4, 3], 1e-38))
    assert np.isinf(too_long.squared_norms())


@each("cancelled", [0.0, 0.5, 0.999, 1.0])
def test_norms_of_products_that_cancel(cancelled):
    """Never less than those of the gradients that are added up; not much more, or a quarter."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(50, 7)), rng.normal(size=(50, 4))
    a[:, 1:] *= 1e-3
    scale = np.full((7, 4), -1.0)
    # The second product takes away what the first one has in its first row.
    c = cancelled * b / a[:, :1]
    parts = TiedOuterSum(*(tf.constant(x, tf.float32) for x in (a, b, c, scale)))
    found = np.sqrt(parts.squared_norms().numpy().astype(np.float64))
    a, b, c = (np.float64(np.float32(x)) for x in (a, b, c))
    first = a[:, :, None] * b[:, None]
    second = -np.square(a)[:, :, None] * c[:, None]
    lengths = [np.linalg.norm(x, axis=(1, 2)) for x in (first, second)]
    exact = np.linalg.norm(first + second, axis=(1, 2))
    assert np.all(found >= exact)
    assert np.all(found >= sum(lengths) / 4)
    np.testing.assert_allclose(found, np.maximum(exact, sum(lengths) / 4), rtol=1e-4)
    finite = tf.ones([50], tf.bool)
    for row in range(3):
        total = parts.weighted_sum(tf.one_hot(row, 50), finite).numpy()
        assert np.linalg.norm(total) <= found[row]


def test_gradients_of_single_rows_are_not_stored(monkeypatch):
    """In closed form for dense layers: what is never instantiated."""
    model = noisy(((5,), dense()), ((5,), dense(**KINDS["fixed"])))

    def refuse(self):
        raise AssertionError("a gradient for each row")

    monkeypatch.setattr(ScaledOuterSum, "instantiated", refuse)
    monkeypatch.setattr(TiedOuterSum, "instantiated", refuse)
    rows = example_rows(model, 3)
    book_keeping(model, loss_function(model), rows, model.trainable_variables, 0.1)
