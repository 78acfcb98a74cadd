"""Variables that several layers own, and variables that are read where nothing shows it."""

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.invariants import assert_clipped_to_the_norm
from tests.gradients.looped_reference import (
    assert_equals_the_loop,
    double_precision,
    example_rows,
    loss_function,
)
from tests.tied import share_kernel
from tfdpnorm.gradients import OuterSum, Rule, book_keeping, register_rule

layers = keras.layers


class TiedHead(layers.Layer):
    """Logits by the inner products with the vectors of a table, which it holds itself."""

    def __init__(self, table, **kwargs):
        super().__init__(**kwargs)
        self.table = table

    def call(self, inputs):
        return tf.matmul(inputs, self.table, transpose_b=True)


class TiedHeadWithRule(TiedHead):
    """The same, for which a rule is registered."""


@register_rule(TiedHeadWithRule)
class TiedHeadRule(Rule):
    """The table is the transposed kernel of a dense layer: b_t x_t^T."""

    def forward(self, layer, call, watch, inputs):
        return watch(call(inputs)), inputs

    def contributions(self, layer, inputs, gradients):
        (b,) = gradients
        return [(layer.table, OuterSum(b, inputs, layer.table.shape))]


def language_model(head):
    embedding = layers.Embedding(9, 3)
    inputs = keras.Input((4,), dtype="int32")
    x = layers.Dense(3, "tanh")(embedding(inputs))
    return keras.Model(inputs, layers.Flatten()(head(embedding.embeddings)(x)))


def fallback_head():
    return language_model(TiedHead)


def head_with_a_rule():
    return language_model(TiedHeadWithRule)


def dense_layers():
    """Two layers of one kernel; the biases are their own."""
    first, second = layers.Dense(3, "tanh"), layers.Dense(3)
    inputs = keras.Input((3,))
    second(first(inputs))
    share_kernel(first, second)
    return keras.Model(inputs, second(first(inputs)))


class Pointwise(TiedHead):
    """A layer without a rule, with the kernel of a convolution."""

    def call(self, inputs):
        return tf.einsum("abc,dce->abe", inputs, self.table)


def convolution_and_its_kernel():
    convolution = layers.Conv1D(4, 2, padding="same")
    inputs = keras.Input((5, 4))
    x = layers.Activation("tanh")(convolution(inputs))
    x = Pointwise(convolution.kernel)(x)
    return keras.Model(inputs, layers.Dense(2)(layers.Flatten()(x)))


def inside_and_outside_of_steps():
    first, second = layers.Dense(3), layers.Dense(3, use_bias=False)
    inputs = keras.Input((4, 3))
    outputs = second(layers.Flatten()(layers.TimeDistributed(first)(inputs))[:, :3])
    share_kernel(first, second)
    return keras.Model(inputs, outputs)


MODELS = [
    fallback_head,
    head_with_a_rule,
    dense_layers,
    convolution_and_its_kernel,
    inside_and_outside_of_steps,
]


@each("build", MODELS)
def test_equals_the_loop(build):
    """Norms of the owners taken apart would miss the cross terms, and the row exceed the clip."""
    model = build()
    assert len({id(v) for v in model.trainable_variables}) == len(model.trainable_variables)
    assert_equals_the_loop(model)
    assert_clipped_to_the_norm(model, clip=1e-3)


# --- reads that no z shows ---


class Borrowing(layers.Layer):
    """Reads the table of a layer inside it, past that layer's call."""

    def __init__(self, embedding, own=False, **kwargs):
        super().__init__(**kwargs)
        self.embedding = embedding
        self.offset = self.add_weight(name="offset", shape=()) if own else 0.0

    def call(self, inputs):
        table = tf.cast(self.embedding.embeddings, inputs.dtype)
        return tf.matmul(inputs, table, transpose_b=True) + tf.cast(self.offset, inputs.dtype)


class Scaling(keras.Model):
    """A model whose call reads the weight of a layer, before or behind other layers."""

    def __init__(self, before):
        super().__init__()
        self.first, self.second = layers.Dense(3), layers.Dense(3, name="second")
        self.second.build((None, 3))
        self.before = before

    def call(self, inputs):
        bias = self.second.bias
        x = self.first(inputs * (1.0 + bias) if self.before else inputs)
        x = self.second(x)
        return x if self.before else x * (1.0 + bias)


def borrowing(own):
    embedding = layers.Embedding(9, 3, name="words")
    inputs = keras.Input((4,), dtype="int32")
    head = Borrowing(embedding, own=own, name="borrowing")
    return keras.Model(inputs, layers.Flatten()(head(embedding(inputs))))


@each(
    "policy, own, reader",
    [("mixed_bfloat16", False, "other code"), ("float32", True, "borrowing")],
)
def test_a_layer_that_reads_what_it_does_not_own_is_rejected(policy, own, reader):
    keras.mixed_precision.set_global_policy(policy)
    try:
        model = borrowing(own)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    rows = example_rows(model, 2)
    with pytest.raises(ValueError, match=f"'words/emb.*{reader!r}.*'words'"):
        book_keeping(model, loss_function(model), rows, model.trainable_variables, 1.0)


@each("before, graph", [(False, False), (True, False), (False, True), (True, True)])
def test_a_model_that_reads_weights_of_its_layers_is_rejected(before, graph):
    model = Scaling(before)
    model.build((None, 3))

    def loss_fn(x, y, weight):
        predictions = model(x)
        return tf.reduce_sum(tf.square(predictions - y), 1) * weight, predictions

    rows = (tf.ones([2, 3]), tf.zeros([2, 3]), tf.ones(2), tf.ones(2))

    def gradients():
        return book_keeping(model, loss_fn, rows, model.trainable_variables, 1.0).gradients

    with pytest.raises(ValueError, match="bias.*'other code'"):
        tf.function(gradients, autograph=False)() if graph else gradients()
    assert "call" not in vars(model.second)


@each("read", [tf.square, lambda kernel: tf.gather(kernel, [0])])
def test_a_loss_that_reads_weights_is_rejected(read):
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2)])
    plain = loss_function(model)

    def loss_fn(x, y, weight):
        losses, predictions = plain(x, y, weight)
        return losses + tf.reduce_sum(read(model.layers[0].kernel)), predictions

    with pytest.raises(ValueError, match="kernel.*'other code'"):
        book_keeping(model, loss_fn, example_rows(model, 2), model.trainable_variables, 1.0)


def test_reads_of_frozen_weights_are_free():
    """They have no gradient that could be missing."""
    model = borrowing(own=True)
    model.get_layer("words").trainable = False
    assert [v.name.split(":")[0] for v in model.trainable_variables] == ["offset"]
    assert_equals_the_loop(model, counts=(2,))


@each("options", [{"dilation_rate": 2}, {"strides": 2}])
def test_convolutions_of_one_kernel_with_other_windows(options):
    with double_precision():
        first, second = layers.Conv1D(2, 3), layers.Conv1D(2, 3, **options)
        inputs = keras.Input((9, 2))
        second.build(inputs.shape)
        one = first(inputs)
        share_kernel(first, second)
        flat = [layers.Flatten()(x) for x in (one, second(inputs))]
        model = keras.Model(inputs, layers.Dense(2)(layers.Concatenate()(flat)))
        assert_equals_the_loop(model, counts=(3,))
