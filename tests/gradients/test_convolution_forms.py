"""The forms that a convolution's gradients take: the same sums and norms, whichever is cheapest."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.gradients.invariants import side_by_side
from tests.gradients.looped_reference import assert_equals_the_loop, example_rows, loss_function
from tfdpnorm.gradients import book_keeping
from tfdpnorm.gradients.contributions.convolution_sum import ConvolutionSum
from tfdpnorm.gradients.contributions.window import Window
from tfdpnorm.keras_compat.devices_and_precision import made_under


def model_of(input_shape, *layers):
    keras.utils.set_random_seed(7)
    x = inputs = keras.Input(input_shape)
    for layer in layers:
        x = layer(x)
    return keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Flatten()(x)))


def convolutions():
    """With all options, side by side."""
    keras.utils.set_random_seed(7)
    one, two, three = keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D
    return side_by_side(
        ((8, 7, 2), two(3, 3, padding="same", activation="tanh")),
        ((8, 7, 2), two(3, (3, 2), strides=(2, 3), activation="tanh")),
        ((8, 7, 2), two(3, 3, strides=2, padding="same", use_bias=False)),
        ((8, 7, 2), two(3, (2, 3), dilation_rate=2, activation="relu")),
        ((3, 3, 3), two(3, 3, padding="same")),
        ((7, 3), one(3, 3, padding="causal", activation="tanh")),
        ((7, 3), one(3, 2, strides=2, padding="causal")),
        ((3, 4, 3, 2), three(3, (2, 3, 2), padding="same", activation="tanh")),
    )


def test_all_forms_equal_the_loop(form):
    # Gram matrices give norms that are larger by what rounding may have taken away.
    assert_equals_the_loop(convolutions(), counts=(0, 1, 7), tolerance=1e-4)


@pytest.mark.parametrize("of", ["images", "outputs"])
def test_a_row_that_is_not_finite_adds_nothing(form, of):
    """Whichever factor of its gradient it is in."""
    rng = np.random.default_rng(5)
    layer = keras.layers.Conv2D(3, 3, padding="same")
    layer.build((None, 4, 4, 2))
    parts = {name: rng.normal(size=(5, 4, 4, c)) for name, c in (("images", 2), ("outputs", 3))}
    finite = np.ones(5, bool)
    clean = {
        name: np.float32(np.where(np.arange(5) == 2, 0, part.T).T) for name, part in parts.items()
    }
    parts[of][2, 1, 1, 0], finite[2] = np.inf, False
    factors = tf.constant(np.where(finite, 0.5, 0.0), tf.float32)

    def total(parts):
        images, b = (tf.constant(parts[name], tf.float32) for name in ("images", "outputs"))
        found = ConvolutionSum(images, b, Window.of(layer), layer.kernel.shape)
        found.squared_norms()
        return found.weighted_sum(factors, tf.constant(finite))

    np.testing.assert_allclose(total(parts), total(clean), rtol=1e-5, atol=1e-5)


@pytest.fixture
def place_by_place(monkeypatch):
    monkeypatch.setattr(ConvolutionSum, "_by_patches", lambda self: False)
    monkeypatch.setattr(ConvolutionSum, "_by_places", lambda self: True)


def test_two_calls_add_up_place_by_place(place_by_place):
    layer = keras.layers.Conv2D(3, 3, padding="same", activation="tanh")
    assert_equals_the_loop(model_of((4, 5, 3), layer, layer), counts=(2, 7))


def wide_model(policy):
    with made_under(policy):
        layer = keras.layers.Conv2D(8, 3, padding="same", use_bias=False)
        return model_of((12, 12, 32), layer), layer


def test_products_in_bfloat16_stay_within_the_clip(place_by_place):
    """A row's norm is that of the gradient that is added up, with the rounding that it has had."""
    model, layer = wide_model("mixed_bfloat16")
    for seed in range(4):
        result = book_keeping(
            model, loss_function(model), example_rows(model, 1, seed), [layer.kernel], 0.01
        )
        (total,) = result.gradients
        assert total.dtype == tf.float32
        norm = np.linalg.norm(total.numpy().astype(np.float64))
        assert norm <= 0.01 * (1 + 1e-6)
        assert norm == pytest.approx(0.01, rel=1e-4)


def test_small_places_beside_a_large_one_are_not_lost():
    """TensorFlow adds up eight at a time; all eight together are too small to change the sum."""
    size = 17
    layer = keras.layers.Conv2D(1, size)
    layer.build((None, size, size, 1))
    pixels = np.full(size**2, np.sqrt(0.98 * 2.0**-24 / 8), np.float32)
    pixels[0] = 1
    images, b = tf.reshape(tf.constant(pixels), (1, size, size, 1)), tf.ones((1, 1, 1, 1))
    _, norms = ConvolutionSum(images, b, Window.of(layer), layer.kernel.shape)._place_by_place()
    assert norms.numpy()[0].astype(np.float64) >= np.square(pixels.astype(np.float64)).sum()
