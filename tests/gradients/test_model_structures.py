"""What surrounds the layers: several inputs and outputs, sharing, nesting, freezing, dropout."""

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.invariants import (
    assert_one_mask_for_norm_and_sum,
    gradients_of,
    head,
    norm_of,
)
from tests.gradients.looped_reference import (
    assert_equals_the_loop,
    example_rows,
    loss_function,
)
from tfdpnorm.gradients import book_keeping
from tfdpnorm.layers import ScaleNorm

layers = keras.layers


# --- inputs, outputs and what is between ---


def several_inputs():
    image, vector, tokens = keras.Input((5, 5, 2)), keras.Input((3,)), keras.Input((4,))
    x = layers.Flatten()(layers.Conv2D(2, 3, activation="relu")(image))
    y = layers.Dense(4, "tanh")(layers.Concatenate()([x, layers.Dense(3)(vector)]))
    return keras.Model([image, vector, tokens], layers.Dense(2)(y * layers.Dense(4)(tokens)))


def several_consumers():
    inputs = keras.Input((6, 3))
    x = layers.Dense(3, "tanh")(inputs)
    y = layers.Conv1D(3, 3, padding="same")(x)
    z = layers.Add()([x, y, layers.LayerNormalization()(x)])
    return keras.Model(inputs, head(layers.Concatenate()([x, z, x * y])))


def nested():
    inner = keras.Sequential([keras.Input((4, 3)), layers.Dense(3, "tanh"), layers.PReLU()])
    inputs = keras.Input((4, 3))
    middle = keras.Model(inputs, inner(inputs) + layers.EinsumDense("abc,cd->abd", (4, 3))(inputs))
    outer = keras.Input((4, 3))
    return keras.Model(outer, head(middle(inner(outer)) + middle(outer)))


def activation_with_weights():
    inputs = keras.Input((4,))
    x = layers.Dense(3, activation=layers.PReLU(alpha_initializer="ones"))(inputs)
    return keras.Model(inputs, layers.Dense(2)(x))


def normalized_sums():
    inputs = keras.Input((4, 4, 4))
    x, total = inputs, 0.0
    for options in (
        {"groups": 2},
        {"groups": -1},
        {"normalization": "public_batch"},
        {"normalization": "public_batch", "statistics": "blend"},
    ):
        x = ScaleNorm(**options)([inputs, layers.Conv2D(4, 3, padding="same")(x)])
        total += head(x)
    return keras.Model(inputs, total)


@each(
    "build",
    [several_inputs, several_consumers, nested, normalized_sums, activation_with_weights],
)
def test_structures_equal_the_loop(build):
    assert_equals_the_loop(build())


# --- one layer, several calls ---


def test_siamese_layers_are_clipped_by_their_whole_norm():
    """Norms of the two calls taken apart would miss the cross terms, and exceed the clip."""
    shared = [
        ((3,), layers.Dense(4)),
        ((6, 2), layers.Conv1D(4, 3)),
        ((6, 2), layers.Conv1D(4, 3, groups=2)),
        ((6, 2), layers.SeparableConv1D(4, 3)),
        ((6, 2), layers.Conv1DTranspose(4, 3)),
        ((6, 2), layers.EinsumDense("abc,cd->abd", (6, 4), bias_axes="d")),
        ((6, 2), layers.EinsumDense("abc,bcd->abd", (6, 4), bias_axes="bd")),
        ((6, 4), layers.LayerNormalization(center=False)),
        ((6, 2), layers.PReLU(alpha_initializer="ones", shared_axes=[1])),
    ]
    shapes = [(3,), (6, 2), (6, 4)]
    pairs = {shape: (keras.Input(shape), keras.Input(shape)) for shape in shapes}
    summed = layers.Lambda(lambda x: tf.reduce_sum(x, 1, keepdims=True))
    parts = []
    for shape, layer in shared:
        left, right = pairs[shape]
        features = [layers.Flatten()(layer(x)) for x in (-left, -2.0 * right)]
        parts.append(summed(features[0] * features[1]))
    model = keras.Model([x for pair in pairs.values() for x in pair], layers.Concatenate()(parts))
    gradients = gradients_of(model, example_rows(model, 1), 1e-3)
    assert norm_of(gradients) == pytest.approx(1e-3, rel=1e-5)
    assert_equals_the_loop(model, counts=(3,))


# --- frozen layers ---


def half_frozen():
    inputs = keras.Input((8, 8, 2))
    x = layers.Conv2D(3, 3, name="frozen_conv")(inputs)
    x = layers.BatchNormalization(name="frozen_norm")(x)
    x = layers.DepthwiseConv2D(3, name="frozen_depthwise")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(3, name="first")(x)
    x = layers.Dense(4, "tanh", name="frozen_dense")(x)
    model = keras.Model(inputs, layers.Dense(2, name="last")(x))
    for layer in model.layers:
        layer.trainable = not layer.name.startswith("frozen")
    return model


def test_frozen_layers_equal_the_loop():
    assert_equals_the_loop(half_frozen())


# --- random numbers ---


def with_dropout():
    inputs = keras.Input((6, 6, 2))
    x = layers.Dropout(0.5)(inputs)
    x = layers.Conv2D(4, 3, activation="relu")(x)
    x = layers.SpatialDropout2D(0.5)(x)
    x = layers.SeparableConv2D(3, 2)(x)
    x = layers.GaussianNoise(1.0)(x)
    return keras.Model(inputs, layers.Dense(2)(layers.Dropout(0.3)(layers.Flatten()(x))))


def test_dropout_has_one_mask_for_the_norm_and_the_sum():
    assert_one_mask_for_norm_and_sum(with_dropout(), seeds=range(3))


class _InALoop(keras.layers.Layer):
    """Calls a layer inside of `tf.map_fn`."""

    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(3)

    def build(self, input_shape):
        self.inner.build(input_shape[1:])

    def call(self, inputs):
        return tf.map_fn(self.inner, inputs)


def test_a_layer_called_inside_a_loop_is_rejected():
    model = keras.Sequential([keras.Input((4, 2)), _InALoop(), keras.layers.Flatten()])
    rows = example_rows(model, 2)
    step = tf.function(
        lambda: book_keeping(model, loss_function(model), rows, model.trainable_variables, 1.0),
        autograph=False,
    )
    with pytest.raises(ValueError, match="'dense.*inside a loop"):
        step()


def test_a_small_convolution_called_twice_is_clipped_by_both():
    """So many channels over so few positions that one call would be measured by Gram matrices."""
    shared = keras.layers.Conv2D(16, 3, padding="same", activation="tanh")
    inputs = keras.Input((2, 2, 16))
    outputs = keras.layers.Dense(1)(keras.layers.Flatten()(shared(shared(inputs))))
    assert_equals_the_loop(keras.Model(inputs, outputs), counts=(2,), clips=(0.05,))
