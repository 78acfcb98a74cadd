"""The rule of variational dropout against the loop, each row with the noise that it has there."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

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


def dense_model(shape=(5,), **options):
    inputs = keras.Input(shape)
    x = VariationalDropoutDense(6, activation="tanh", **options)(inputs)
    model = keras.Model(inputs, VariationalDropoutDense(3, **options)(x))
    set_noise(model)
    return model


def convolutional_model(shape=(5, 4, 2), **options):
    inputs = keras.Input(shape)
    layer = VariationalDropoutConv2D(3, (2, 3), strides=2, padding="same", **options)
    x = keras.layers.Flatten()(layer(inputs))
    model = keras.Model(inputs, VariationalDropoutDense(2, use_bias=False, **options)(x))
    set_noise(model)
    return model


@pytest.mark.slow_cases("neuron", "layer", "public", "bounded public")
@pytest.mark.parametrize("kind", KINDS)
def test_dense_equals_the_loop(kind):
    with double_precision():
        model = dense_model(**KINDS[kind])
        assert_equals_the_loop(model, counts=(0, 1, 7), tolerance=1e-6)


@pytest.mark.slow_cases("neuron", "fixed", "public", "bounded*")
@pytest.mark.parametrize("kind", KINDS)
def test_convolution_equals_the_loop(kind):
    with double_precision():
        model = convolutional_model(**KINDS[kind])
        assert_equals_the_loop(model, counts=(0, 3), tolerance=1e-6)


@pytest.mark.parametrize("kind", ["weight", "fixed"])
def test_further_axes(kind):
    with double_precision():
        assert_equals_the_loop(dense_model((2, 3), **KINDS[kind]), counts=(4,), tolerance=1e-6)
        if KERAS_3:  # which has none beside those of the images
            return
        model = convolutional_model((2, 4, 3, 2), **KINDS[kind])
        assert_equals_the_loop(model, counts=(2,), tolerance=1e-6)


@pytest.mark.parametrize("kind", ["weight", "layer"])
def test_a_layer_that_is_called_twice(kind):
    with double_precision():
        inputs = keras.Input([4])
        layer = VariationalDropoutDense(4, activation="tanh", **KINDS[kind])
        model = keras.Model(inputs, layer(layer(inputs)))
        set_noise(model)
        assert_equals_the_loop(model, counts=(5,), tolerance=1e-6)


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


@pytest.mark.slow_cases("fixed")
@pytest.mark.parametrize("kind", ["weight", "fixed"])
def test_half_precision_is_near_the_loop(kind):
    keras.mixed_precision.set_global_policy("mixed_float16")
    assert_equals_the_loop(dense_model(**KINDS[kind]), counts=(3,), tolerance=0.005)


@pytest.mark.slow_cases("*-mixed_bfloat16", "fixed-mixed_float16")
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("kind", ["weight", "fixed"])
def test_rows_stay_within_the_clipping_norm(kind, policy):
    """Each row by itself, through inputs and noise of all sizes."""
    keras.mixed_precision.set_global_policy(policy)
    model = dense_model(**KINDS[kind])
    loss_fn = loss_function(model)
    rng = np.random.default_rng(0)
    for size in (1e-30, 1e-4, 1.0, 1e4, 1e18, 1e25):
        for clip in (1e-3, 1.0):
            x = tf.constant(size * rng.normal(size=(1, 5)), tf.float32)
            y = tf.constant(rng.normal(size=(1, 3)), tf.float32)
            rows = (x, y, tf.ones([1]), tf.ones([1]))
            found = book_keeping(model, loss_fn, rows, model.trainable_variables, clip).gradients
            norm = np.sqrt(sum(np.square(np.float64(g)).sum() for g in found))
            assert norm <= clip * (1 + 1e-6), (size, clip)


def test_a_row_that_is_not_finite_counts_as_zero():
    model = dense_model()
    variables, loss_fn = model.trainable_variables, loss_function(model)
    x, y, weight, mask = example_rows(model, 4)
    for bad in (np.inf, np.nan, 1e30):
        spoilt = tf.concat([x[:1] * 0 + bad, x[1:]], 0)
        found = book_keeping(model, loss_fn, (spoilt, y, weight, mask), variables, 0.1)
        without = tf.concat([[0.0], mask[1:]], 0)
        expected = book_keeping(model, loss_fn, (x, y, weight, without), variables, 0.1)
        assert (
            relative_error(
                [g.numpy() for g in found.gradients], [g.numpy() for g in expected.gradients]
            )
            < 1e-6
        )


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


@pytest.mark.parametrize("cancelled", [0.0, 0.5, 0.999, 1.0])
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


@pytest.mark.parametrize("kind", ["weight", "fixed"])
def test_gradients_of_single_rows_are_not_stored(kind, monkeypatch):
    """In closed form for dense layers: what is never instantiated."""
    model = dense_model(**KINDS[kind])

    def refuse(self):
        raise AssertionError("a gradient for each row")

    monkeypatch.setattr(ScaledOuterSum, "instantiated", refuse)
    monkeypatch.setattr(TiedOuterSum, "instantiated", refuse)
    rows = example_rows(model, 3)
    book_keeping(model, loss_function(model), rows, model.trainable_variables, 0.1)
