"""Rules of depthwise, separable, transposed and grouped convolutions, and of PReLU."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.gradients.invariants import (
    assert_clipped_to_the_norm,
    assert_graph_equals_eager,
    assert_nonfinite_row_counts_as_zero,
)
from tests.gradients.looped_reference import assert_equals_the_loop
from tfdpnorm.gradients import book_keeping
from tfdpnorm.gradients.rules import rule_for
from tfdpnorm.keras_compat.devices_and_precision import made_under

layers = keras.layers

causal = pytest.mark.keras_2_only("no causal padding of separable convolutions")
no_further_axes = pytest.mark.keras_2_only("no further axes beside those of the images")


def model_of(shape, *inner):
    """A model whose loss is a sum of squares of what the last of the layers gives."""
    keras.utils.set_random_seed(3)
    head = layers.Dense(2, dtype="float32")
    return keras.Sequential([keras.Input(shape), *inner, layers.Flatten(), head])


DEPTHWISE = [
    ((7, 6, 3), lambda: layers.DepthwiseConv2D(3, activation="tanh")),
    ((7, 6, 3), lambda: layers.DepthwiseConv2D((2, 3), depth_multiplier=2, padding="same")),
    ((7, 7, 2), lambda: layers.DepthwiseConv2D(3, strides=2, padding="same", use_bias=False)),
    ((8, 7, 2), lambda: layers.DepthwiseConv2D(3, strides=2, depth_multiplier=3)),
    ((9, 8, 2), lambda: layers.DepthwiseConv2D(3, dilation_rate=2)),
    ((8, 7, 1), lambda: layers.DepthwiseConv2D(3, dilation_rate=(1, 2), padding="same")),
    # Kernels whose gradients are sums over their places: large ones, and those beyond the images.
    ((8, 7, 3), lambda: layers.DepthwiseConv2D(5, strides=2, padding="same")),
    ((9, 8, 2), lambda: layers.DepthwiseConv2D((4, 2), strides=2, depth_multiplier=2)),
    ((9, 10, 2), lambda: layers.DepthwiseConv2D((4, 3), dilation_rate=(2, 1), padding="same")),
    ((1, 2, 3), lambda: layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same")),
    ((9, 2), lambda: layers.DepthwiseConv1D(5, dilation_rate=2, padding="same")),
    ((9, 2), lambda: layers.DepthwiseConv1D(5, strides=2, activation="tanh")),
    ((9, 3), lambda: layers.DepthwiseConv1D(3, depth_multiplier=2, activation="relu")),
    ((9, 2), lambda: layers.DepthwiseConv1D(4, strides=3, padding="same")),
    ((9, 2), lambda: layers.DepthwiseConv1D(3, dilation_rate=2, padding="same")),
]
SEPARABLE = [
    ((7, 6, 3), lambda: layers.SeparableConv2D(4, 3, activation="tanh")),
    ((7, 7, 2), lambda: layers.SeparableConv2D(3, 3, strides=2, padding="same", use_bias=False)),
    ((8, 7, 2), lambda: layers.SeparableConv2D(3, 2, dilation_rate=2, depth_multiplier=2)),
    pytest.param(
        (9, 3),
        lambda: layers.SeparableConv1D(4, 3, padding="causal", activation="elu"),
        marks=causal,
    ),
    ((9, 3), lambda: layers.SeparableConv1D(4, 3, strides=2, depth_multiplier=2)),
    ((9, 3), lambda: layers.SeparableConv1D(2, 3, dilation_rate=3, padding="same")),
    pytest.param(
        (9, 3),
        lambda: layers.SeparableConv1D(2, 3, dilation_rate=2, padding="causal"),
        marks=causal,
    ),
    pytest.param(
        (9, 3),
        lambda: layers.SeparableConv1D(2, 4, dilation_rate=2, padding="causal"),
        marks=causal,
    ),
    # Keras pads the whole reach of a causal kernel, strided or not.
    pytest.param(
        (8, 3), lambda: layers.SeparableConv1D(2, 2, strides=2, padding="causal"), marks=causal
    ),
]
TRANSPOSED = [
    ((4, 3, 3), lambda: layers.Conv2DTranspose(2, 3, activation="tanh")),
    ((4, 3, 2), lambda: layers.Conv2DTranspose(3, (3, 2), strides=2, padding="same")),
    ((4, 3, 2), lambda: layers.Conv2DTranspose(3, 2, strides=(1, 3), use_bias=False)),
    (
        (4, 3, 2),
        lambda: layers.Conv2DTranspose(2, 3, strides=2, padding="same", output_padding=1),
    ),
    ((4, 3, 2), lambda: layers.Conv2DTranspose(2, 3, strides=3, output_padding=(1, 2))),
    ((4, 5, 2), lambda: layers.Conv2DTranspose(2, 3, dilation_rate=2)),
    ((4, 5, 2), lambda: layers.Conv2DTranspose(2, 2, dilation_rate=2, padding="same")),
    ((6, 2), lambda: layers.Conv1DTranspose(3, 3, strides=2, activation="relu")),
    ((6, 2), lambda: layers.Conv1DTranspose(3, 4, strides=3, padding="same", output_padding=2)),
    ((2, 3, 2, 2), lambda: layers.Conv3DTranspose(2, 2, strides=2)),
    ((2, 3, 2, 2), lambda: layers.Conv3DTranspose(2, 3, padding="same")),
    # Keras 2 runs it without the dilation.
    ((2, 3, 2, 2), lambda: layers.Conv3DTranspose(2, 2, dilation_rate=2)),
]
GROUPED = [
    ((6, 5, 4), lambda: layers.Conv2D(6, 3, groups=2, activation="tanh")),
    ((3, 3, 4), lambda: layers.Conv2D(20, 2, groups=2, use_bias=False)),  # by Gram matrices
    ((6, 5, 3), lambda: layers.Conv2D(6, 3, groups=3, strides=2, padding="same")),
    ((8, 4), lambda: layers.Conv1D(6, 3, groups=2, dilation_rate=2, padding="causal")),
    ((8, 4), lambda: layers.Conv1D(4, 3, groups=4, padding="causal")),
    ((8, 4), lambda: layers.Conv1D(4, 2, strides=2, groups=2, padding="causal")),
    ((8, 4), lambda: layers.Conv1D(4, 2, strides=2, groups=4, padding="causal")),
    ((3, 4, 3, 4), lambda: layers.Conv3D(4, 2, groups=2)),
]
PRELU = [
    ((4, 3, 2), lambda: layers.PReLU(alpha_initializer="glorot_normal")),
    ((4, 3, 2), lambda: layers.PReLU(alpha_initializer="ones", shared_axes=[1, 2])),
    ((4, 3, 2), lambda: layers.PReLU(alpha_initializer="ones", shared_axes=[3])),
    ((5,), lambda: layers.PReLU(shared_axes=[1])),
]


@pytest.mark.parametrize("shape, layer", [*DEPTHWISE, *SEPARABLE, *TRANSPOSED, *GROUPED])
def test_convolutions_equal_the_loop(shape, layer):
    layer = layer()
    model = model_of(shape, layer)
    assert rule_for(layer) is not None
    assert_equals_the_loop(model, counts=(1, 3))


@pytest.mark.parametrize("shape, layer", PRELU)
def test_prelu_equals_the_loop(shape, layer):
    layer = layer()
    model = model_of(shape, layers.Dense(shape[-1]), layer)
    assert rule_for(layer) is not None
    assert_equals_the_loop(model)


def test_a_stack_equals_the_loop_for_all_sizes_of_batches():
    assert_equals_the_loop(
        model_of(
            (8, 8, 2),
            layers.SeparableConv2D(4, 3, strides=2, padding="same"),
            layers.PReLU(shared_axes=[1, 2]),
            layers.Conv2D(4, 2, groups=2),
            layers.DepthwiseConv2D(2, activation="tanh"),
            layers.Conv2DTranspose(2, 3, strides=2),
        )
    )


@pytest.mark.quick_cases("<lambda>1", "<lambda>3")
@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.Conv2D(4, 3, groups=2, padding="same"),
        lambda: layers.DepthwiseConv2D(3, padding="same"),
        lambda: layers.SeparableConv2D(4, 3, padding="same"),
        lambda: layers.Conv2DTranspose(4, 3, padding="same"),
        lambda: layers.PReLU(alpha_initializer="ones"),
    ],
)
def test_two_calls_of_a_layer_add_up_before_the_norm(layer):
    keras.utils.set_random_seed(3)
    layer = layer()
    inputs = keras.Input((4, 4, 4))
    outputs = layer(layers.Dense(4)(layer(inputs)))
    assert_equals_the_loop(keras.Model(inputs, layers.Dense(2)(layers.Flatten()(outputs))))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.Conv2D(4, 3, groups=2),
        lambda: layers.DepthwiseConv2D(3),
        lambda: layers.SeparableConv2D(4, 3),
        lambda: layers.Conv2DTranspose(4, 3),
        lambda: layers.PReLU(),
    ],
)
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_row_that_is_not_finite_counts_as_zero(layer, value):
    assert_nonfinite_row_counts_as_zero(model_of((5, 5, 2), layer()), value)


@pytest.mark.slow_cases("<lambda>0", "<lambda>2")
@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.Conv2D(4, 3, groups=2),
        lambda: layers.DepthwiseConv2D(3),
        lambda: layers.SeparableConv2D(4, 3),
        lambda: layers.PReLU(shared_axes=[1, 2]),
    ],
)
def test_in_a_graph_with_an_unknown_number_of_rows(layer):
    assert_graph_equals_eager(model_of((6, 6, 2), layer()))


@pytest.mark.slow_cases("<lambda>1", "<lambda>2")
@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.DepthwiseConv2D(3, strides=2),
        lambda: layers.DepthwiseConv2D(3, dilation_rate=2, padding="same"),
        lambda: layers.SeparableConv2D(4, 3),
        lambda: layers.PReLU(shared_axes=[1, 2]),
    ],
)
def test_images_of_unknown_sizes(layer):
    keras.utils.set_random_seed(3)
    inputs = keras.Input((None, None, 2))
    outputs = layers.Dense(2)(layers.GlobalAveragePooling2D()(layer()(inputs)))
    model = keras.Model(inputs, outputs)
    rows = (tf.random.normal([4, 6, 7, 2]), tf.zeros([4, 2]), tf.ones(4), tf.ones(4))
    assert_graph_equals_eager(model, rows, [None, None, None, 2], [None, None])


@pytest.mark.parametrize("shape", [(None, 4), pytest.param((2, 5, 4), marks=no_further_axes)])
def test_groups_over_unknown_sizes_or_more_axes_are_rejected(shape):
    model = keras.Sequential([keras.Input(shape), layers.Conv1D(4, 3, groups=2, name="grouped")])
    traced = tf.function(
        lambda x: (
            book_keeping(
                model,
                lambda x, y, weight: (
                    tf.reduce_sum(model(x), range(1, len(shape) + 1)) * weight,
                    y,
                ),
                (x, x, tf.ones(2), tf.ones(2)),
                model.trainable_variables,
                1.0,
            ).gradients
        ),
        autograph=False,
    )
    with pytest.raises(ValueError, match="known sizes in the grouped convolution"):
        traced.get_concrete_function(tf.TensorSpec([2, *shape], tf.float32))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.DepthwiseConv2D(3, depth_multiplier=2),
        lambda: layers.SeparableConv2D(4, 3),
        lambda: layers.Conv2DTranspose(4, 3, strides=2),
        lambda: layers.PReLU(alpha_initializer="ones", shared_axes=[1, 2]),
    ],
)
def test_half_precision_never_exceeds_the_clip(layer):
    with made_under("mixed_float16"):
        model = model_of((6, 6, 4), layer())
    assert_clipped_to_the_norm(model, seeds=range(2), rel=1e-3)


@no_further_axes
@pytest.mark.parametrize("kernel_size", [1, 2])
def test_a_convolution_with_a_further_batch_axis(kernel_size):
    """Keras convolves all but the last axes' images alike; they belong to one example."""
    layer = keras.layers.Conv2D(3, kernel_size, strides=2)
    inputs = keras.Input((4, 5, 5, 2))
    model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Flatten()(layer(inputs))))
    assert_equals_the_loop(model)
