"""Book-keeping against a Python loop over single examples, and against `per_example`."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.invariants import (
    assert_clipped_to_the_norm,
    assert_nonfinite_row_counts_as_zero,
)
from tests.gradients.looped_reference import (
    assert_equals_the_loop,
    example_rows,
    looped_sum,
    loss_function,
    relative_error,
)
from tfdpnorm import models
from tfdpnorm.gradients import (
    Clipping,
    book_keeping,
)
from tfdpnorm.gradients.contributions import arithmetic, convolution_sum
from tfdpnorm.gradients.engines.registry import engine_named
from tfdpnorm.keras_compat.devices_and_precision import made_under


def dense():
    return keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(2, use_bias=False)]
    )


def dense_over_positions():
    return keras.Sequential(
        [keras.Input((5, 3)), keras.layers.Dense(4, "relu"), keras.layers.Flatten(), _dense(2)]
    )


def _dense(units):
    return keras.layers.Dense(units)


def convolutions():
    return keras.Sequential(
        [
            keras.Input((9, 8, 2)),
            keras.layers.Conv2D(3, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(4, (3, 2), strides=(2, 1), padding="same", use_bias=False),
            keras.layers.Conv2D(2, 2, dilation_rate=2),
            keras.layers.Flatten(),
            _dense(2),
        ]
    )


def normalizations():
    return keras.Sequential(
        [
            keras.Input((4, 4, 4)),
            keras.layers.GroupNormalization(2),
            keras.layers.Conv2D(4, 2),
            keras.layers.GroupNormalization(-1, scale=False),
            keras.layers.LayerNormalization(),
            keras.layers.LayerNormalization(axis=[1, 2, 3], center=False),
            keras.layers.Flatten(),
            _dense(2),
        ]
    )


def siamese():
    shared = keras.layers.Dense(3)
    left, right = keras.Input((3,)), keras.Input((3,))
    return keras.Model([left, right], _dense(2)(shared(left) * shared(right)))


MODELS = [dense, dense_over_positions, normalizations, siamese]


@pytest.mark.parametrize("build", MODELS)
def test_equals_the_loop_over_single_examples(build):
    keras.utils.set_random_seed(3)
    assert_equals_the_loop(build())


@each("value, few_numbers", [(np.inf, True), (np.nan, False), (1e30, True), (np.inf, False)])
def test_a_row_that_is_not_finite_counts_as_zero(value, few_numbers, monkeypatch):
    with monkeypatch.context() as patch:
        if not few_numbers:  # Many are looked through before any is replaced.
            patch.setattr(arithmetic, "_FEW_NUMBERS", -1)
        assert_nonfinite_row_counts_as_zero(convolutions(), value)


def test_loss_scale_changes_nothing():
    model = normalizations()
    loss_fn = loss_function(model)
    rows = example_rows(model, 4)
    plain = book_keeping(model, loss_fn, rows, model.trainable_variables, 0.3)
    clipping = Clipping(0.3, loss_scale=1024.0)
    scaled = book_keeping(model, loss_fn, rows, model.trainable_variables, clipping)
    assert relative_error(scaled.gradients, plain.gradients) < 1e-5


def test_rejections_name_what_is_wrong():
    model = dense()
    rows = example_rows(model, 2)
    engine = engine_named("book_keeping")
    with pytest.raises(ValueError, match="book_keeping"):
        engine.check(rows_mix=True, public_rows_per_example=False, clipping=Clipping(1.0))
    stray = tf.Variable(1.0, name="stray")
    with pytest.raises(ValueError, match="No layer owns variable 'stray"):
        book_keeping(model, loss_function(model), rows, [*model.trainable_variables, stray], 1.0)


def test_a_subclass_of_a_known_layer_is_not_taken_for_it():
    class Doubled(keras.layers.Dense):
        def call(self, inputs):
            return 2.0 * super().call(inputs)

    model = keras.Sequential([keras.Input((3,)), Doubled(2)])
    rows = example_rows(model, 3)
    loss_fn = loss_function(model)
    result = book_keeping(model, loss_fn, rows, model.trainable_variables, 0.1)
    expected = looped_sum(loss_fn, rows, model.trainable_variables, 0.1)
    assert relative_error([g.numpy() for g in result.gradients], expected) < 1e-5


def test_half_precision_never_exceeds_the_clip():
    with made_under("mixed_float16"):
        model = models.build("lenet5", norm="group", input_shape=(12, 12, 1))
    assert_clipped_to_the_norm(model, seeds=range(3), rel=1e-3)


@each("size", [1, 500])
def test_patches_in_chunks_give_the_same_sum(size, monkeypatch):
    """One row at a time, and some."""
    monkeypatch.setattr(convolution_sum, "_PATCH_BYTES", size)
    monkeypatch.setattr(arithmetic, "_MOST_CHUNKS", 3)
    keras.utils.set_random_seed(3)
    assert_equals_the_loop(convolutions(), counts=(2, 7), clips=(0.05,))
