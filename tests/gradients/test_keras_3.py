"""What only Keras 3 has: low-rank updates, quantised layers, layers run twice."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.invariants import (
    assert_clipped_to_the_norm,
    head,
    model_over,
    side_by_side,
)
from tests.gradients.looped_reference import (
    assert_equals_the_loop,
    example_rows,
    loss_function,
)
from tfdpnorm.gradients import book_keeping

layers = keras.layers
pytestmark = [
    pytest.mark.keras_3_only("no low-rank updates, quantised layers, RematScope or these layers"),
    pytest.mark.filterwarnings("ignore:There is no gradient rule"),
]


def updated(*inner, shape, dtype=None):
    """A model in which the layers have low-rank updates that are not zero."""
    model = model_over(shape, *inner, dtype=dtype)
    for layer in inner:
        layer.enable_lora(2)
        layer.lora_kernel_b.assign(0.3 + tf.zeros(layer.lora_kernel_b.shape)) if hasattr(
            layer, "lora_kernel_b"
        ) else layer.lora_embeddings_b.assign(0.3 + tf.zeros(layer.lora_embeddings_b.shape))
    return model


@each(
    "layer, shape, dtype",
    [
        (lambda: layers.Dense(3, "tanh"), (4,), None),
        (lambda: layers.EinsumDense("abc,cd->abd", (5, 3), bias_axes="d"), (5, 4), None),
        (lambda: layers.Conv1D(3, 2), (5, 4), None),
        (lambda: layers.Embedding(20, 3), (5,), "int32"),
    ],
)
def test_low_rank_updates_equal_the_loop(layer, shape, dtype):
    model = updated(layer(), shape=shape, dtype=dtype)
    names = [v.name for v in model.trainable_variables]
    assert any("lora" in name for name in names)
    assert_equals_the_loop(model, counts=(2, 3))
    assert_clipped_to_the_norm(model)


def test_trained_quantised_layers_are_rejected():
    layer = layers.Dense(3, name="rounded")
    model = model_over((4,), layer)
    layer.quantize("int8")
    rows = example_rows(model, 2)
    with pytest.raises(ValueError, match="'rounded' with 'int8'"):
        book_keeping(model, loss_function(model), rows, model.trainable_variables, 1.0)
    layer.trainable = False
    assert_equals_the_loop(model, counts=(2, 3))


@each("around", [False, True])
def test_layers_that_run_twice_are_rejected(around):
    inputs = keras.Input((4,))
    if around:
        inner = layers.Dense(3)
        inner.build((None, 4))
        with keras.RematScope("full"):
            outer = keras.Sequential([keras.Input((4,)), inner], name="again")
    else:
        with keras.RematScope("full"):
            outer = layers.Dense(3, name="again")
    model = keras.Model(inputs, head(outer(inputs)))
    with pytest.raises(ValueError, match="'again'.*RematScope"):
        rows = example_rows(model, 2)
        book_keeping(model, loss_function(model), rows, model.trainable_variables, 1.0)


class OfOperations(layers.Layer):
    """Written with `keras.ops`."""

    def build(self, shape):
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1], 3))
        self.scale = self.add_weight(name="scale", shape=(3,), initializer="ones")

    def call(self, x):
        y = keras.ops.matmul(x, self.kernel)
        return keras.ops.add(y * self.scale, keras.ops.max(y, axis=-1, keepdims=True))


def test_layers_of_keras_3_equal_the_loop():
    inputs = keras.Input((4, 6))
    attention = keras.Model(inputs, layers.GroupQueryAttention(3, 4, 2)(inputs, inputs))
    model = side_by_side(
        ((4, 6), attention),
        ((4, 6), OfOperations()),
        ((4, 6), layers.RMSNormalization()),
        ((4, 6), layers.LayerNormalization(rms_scaling=True)),
        ((9, 8, 2), layers.DepthwiseConv2D(3, strides=2, dilation_rate=2)),
        ((9, 8, 2), layers.SeparableConv2D(3, 2, strides=2, dilation_rate=2)),
    )
    assert_equals_the_loop(model, counts=(2, 3))


def test_the_norm_of_a_fallback_that_draws_is_its_own():
    class Drops(layers.Layer):
        def build(self, shape):
            self.dropout = layers.Dropout(0.5)
            self.kernel = self.add_weight(name="kernel", shape=(shape[-1], 3))

        def call(self, x, training=None):
            return self.dropout(x, training=training) @ self.kernel

    model = keras.Sequential([keras.Input((6,)), Drops()])
    rows = example_rows(model, 1)
    for _ in range(3):
        result = book_keeping(model, loss_function(model), rows, model.trainable_variables, 0.01)
        norm = np.sqrt(sum(np.square(g).sum() for g in result.gradients))
        assert norm <= 0.01 * (1 + 1e-5)
