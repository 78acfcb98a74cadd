"""Rules of depthwise, separable, transposed and grouped convolutions, and of PReLU."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.invariants import (
    assert_clipped_to_the_norm,
    assert_graph_equals_eager,
    assert_nonfinite_row_counts_as_zero,
    side_by_side,
)
from tests.gradients.looped_reference import assert_equals_the_loop, double_precision
from tfdpnorm.gradients import book_keeping
from tfdpnorm.gradients.rules import rule_for
from tfdpnorm.keras_compat.devices_and_precision import made_under
from tfdpnorm.keras_compat.variables import KERAS_3

layers = keras.layers

no_further_axes = pytest.mark.keras_2_only("no further axes beside those of the images")


def depthwise():
    two, one = layers.DepthwiseConv2D, layers.DepthwiseConv1D
    return [
        ((8, 7, 3), two(3, activation="tanh")),
        ((8, 7, 3), two((2, 3), depth_multiplier=2, padding="same")),
        ((8, 7, 3), two(3, strides=2, padding="same", use_bias=False)),
        ((8, 7, 3), two(3, strides=2, depth_multiplier=3)),
        ((9, 8, 1), two(3, dilation_rate=2)),
        ((9, 8, 1), two(3, dilation_rate=(1, 2), padding="same")),
        # Gradients that are sums over their places: large kernels, and those beyond the images.
        ((8, 7, 3), two(5, strides=2, padding="same")),
        ((9, 8, 1), two((4, 2), strides=2, depth_multiplier=2)),
        ((9, 10, 2), two((4, 3), dilation_rate=(2, 1), padding="same")),
        ((1, 2, 3), two(3, depth_multiplier=2, padding="same")),
        ((9, 3), one(5, dilation_rate=2, padding="same")),
        ((9, 3), one(5, strides=2, activation="tanh")),
        ((9, 3), one(3, depth_multiplier=2, activation="relu")),
        ((9, 3), one(4, strides=3, padding="same")),
    ]


def separable():
    two, one = layers.SeparableConv2D, layers.SeparableConv1D
    cases = [
        ((7, 6, 3), two(4, 3, activation="tanh")),
        ((7, 6, 3), two(3, 3, strides=2, padding="same", use_bias=False)),
        ((7, 6, 3), two(3, 2, dilation_rate=2, depth_multiplier=2)),
        ((9, 3), one(4, 3, strides=2, depth_multiplier=2)),
        ((9, 3), one(2, 3, dilation_rate=3, padding="same")),
    ]
    if KERAS_3:  # no causal padding
        return cases
    return [
        *cases,
        ((9, 3), one(4, 3, padding="causal", activation="elu")),
        ((9, 3), one(2, 3, dilation_rate=2, padding="causal")),
        ((9, 3), one(2, 4, dilation_rate=2, padding="causal")),
        # Keras pads the whole reach of a causal kernel, strided or not.
        ((8, 3), one(2, 2, strides=2, padding="causal")),
    ]


def transposed():
    three, two, one = layers.Conv3DTranspose, layers.Conv2DTranspose, layers.Conv1DTranspose
    return [
        ((4, 3, 2), two(2, 3, activation="tanh")),
        ((4, 3, 2), two(3, (3, 2), strides=2, padding="same")),
        ((4, 3, 2), two(3, 2, strides=(1, 3), use_bias=False)),
        ((4, 3, 2), two(2, 3, strides=2, padding="same", output_padding=1)),
        ((4, 3, 2), two(2, 3, strides=3, output_padding=(1, 2))),
        ((4, 3, 2), two(2, 3, dilation_rate=2)),
        ((4, 3, 2), two(2, 2, dilation_rate=2, padding="same")),
        ((6, 2), one(3, 3, strides=2, activation="relu")),
        ((6, 2), one(3, 4, strides=3, padding="same", output_padding=2)),
        ((2, 3, 2, 2), three(2, 2, strides=2)),
        ((2, 3, 2, 2), three(2, 3, padding="same")),
        # Keras 2 runs it without the dilation.
        ((2, 3, 2, 2), three(2, 2, dilation_rate=2)),
    ]


def grouped():
    three, two, one = layers.Conv3D, layers.Conv2D, layers.Conv1D
    return [
        ((6, 5, 6), two(6, 3, groups=2, activation="tanh")),
        ((3, 3, 4), two(20, 2, groups=2, use_bias=False)),  # by Gram matrices
        ((6, 5, 6), two(6, 3, groups=3, strides=2, padding="same")),
        ((8, 4), one(6, 3, groups=2, dilation_rate=2, padding="causal")),
        ((8, 4), one(4, 3, groups=4, padding="causal")),
        ((8, 4), one(4, 2, strides=2, groups=2, padding="causal")),
        ((8, 4), one(4, 2, strides=2, groups=4, padding="causal")),
        ((3, 4, 3, 4), three(4, 2, groups=2)),
    ]


@each("kind", [depthwise, separable, transposed, grouped])
def test_convolutions_equal_the_loop(kind):
    keras.utils.set_random_seed(3)
    # TensorFlow's transposed convolutions of float64 take no dilation.
    narrow = kind is transposed
    with contextlib.nullcontext() if narrow else double_precision():
        cases = kind()
        model = side_by_side(*cases)
    for _, layer in cases:
        assert rule_for(getattr(layer, "layers", [layer])[-1]) is not None
    assert_equals_the_loop(model, counts=(0, 1, 3), tolerance=2e-5 if narrow else 1e-9)


def one_of_each():
    return [
        layers.Conv2D(4, 3, groups=2, padding="same"),
        layers.DepthwiseConv2D(3, padding="same"),
        layers.SeparableConv2D(4, 3, padding="same"),
        layers.Conv2DTranspose(4, 3, padding="same"),
        layers.PReLU(alpha_initializer="ones"),
    ]


@each("value", [np.inf, np.nan])
def test_a_row_that_is_not_finite_counts_as_zero(value):
    for layer in one_of_each():
        assert_nonfinite_row_counts_as_zero(side_by_side(((5, 5, 4), layer)), value)


def test_images_of_unknown_sizes():
    keras.utils.set_random_seed(3)
    inputs = keras.Input((None, None, 2))
    parts = [
        layers.DepthwiseConv2D(3, strides=2),
        layers.DepthwiseConv2D(3, dilation_rate=2, padding="same"),
        layers.SeparableConv2D(4, 3),
        layers.PReLU(shared_axes=[1, 2]),
    ]
    pooled = [layers.GlobalAveragePooling2D()(layer(inputs)) for layer in parts]
    model = keras.Model(inputs, layers.Dense(2)(layers.Concatenate()(pooled)))
    rows = (tf.random.normal([4, 6, 7, 2]), tf.zeros([4, 2]), tf.ones(4), tf.ones(4))
    assert_graph_equals_eager(model, rows, [None, None, None, 2], [None, None])


@pytest.mark.parametrize("shape", [(None, 4), pytest.param((2, 5, 4), marks=no_further_axes)])
def test_groups_over_unknown_sizes_or_more_axes_are_rejected(shape):
    model = keras.Sequential([keras.Input(shape), layers.Conv1D(4, 3, groups=2, name="grouped")])

    def loss_fn(x, y, weight):
        return tf.reduce_sum(model(x), range(1, len(shape) + 1)) * weight, y

    def gradients(x):
        rows = (x, x, tf.ones(2), tf.ones(2))
        return book_keeping(model, loss_fn, rows, model.trainable_variables, 1.0).gradients

    with pytest.raises(ValueError, match="grouped"):
        tf.function(gradients, autograph=False).get_concrete_function(
            tf.TensorSpec([2, *shape], tf.float32)
        )


def test_half_precision_never_exceeds_the_clip():
    with made_under("mixed_float16"):
        model = side_by_side(
            ((6, 6, 4), layers.DepthwiseConv2D(3, depth_multiplier=2)),
            ((6, 6, 4), layers.SeparableConv2D(4, 3)),
            ((6, 6, 4), layers.Conv2DTranspose(4, 3, strides=2)),
            ((6, 6, 4), layers.PReLU(alpha_initializer="ones", shared_axes=[1, 2])),
        )
    assert_clipped_to_the_norm(model, seeds=range(2), rel=1e-3)


@no_further_axes
def test_a_convolution_with_a_further_batch_axis():
    """Keras convolves all but the last axes' images alike; they belong to one example."""
    cases = (((4, 5, 5, 2), layers.Conv2D(3, size, strides=2)) for size in (1, 2))
    assert_equals_the_loop(side_by_side(*cases))
