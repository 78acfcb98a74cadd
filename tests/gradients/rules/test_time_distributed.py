"""Wrappers that run their inner layer on the steps of every row."""

import itertools

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.invariants import assert_clipped_to_the_norm, head, model_over, side_by_side
from tests.gradients.looped_reference import (
    assert_equals_the_loop,
    example_rows,
    looped_sum,
    loss_function,
    relative_error,
)
from tfdpnorm.gradients import book_keeping, register_rule
from tfdpnorm.gradients.rules.registry import WrapperRule
from tfdpnorm.gradients.taps import Taps
from tfdpnorm.keras_compat.variables import KERAS_3

layers = keras.layers


def dense():
    return model_over((5, 3), layers.TimeDistributed(layers.Dense(2, "tanh")))


def masked_words_in_sentences():
    words = layers.TimeDistributed(layers.LSTM(3, return_sequences=True))
    sentences = layers.TimeDistributed(layers.Bidirectional(layers.GRU(2)))
    embedding = layers.Embedding(20, 3, mask_zero=True)
    return model_over((2, 3), embedding, words, sentences, layers.LSTM(2), dtype="int32")


class Gated(layers.Layer):
    """A layer that Keras does not know, which it loops over, and that has no rule."""

    def build(self, input_shape):
        self.kernel = self.add_weight(name="kernel", shape=(input_shape[-1], 2))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 2)

    def call(self, inputs):
        return tf.sigmoid(inputs @ self.kernel)


def inside_and_outside():
    shared = layers.Dense(3)
    inputs = keras.Input((4, 3))
    x = layers.TimeDistributed(shared)(inputs)
    return keras.Model(inputs, head(x) * head(shared(inputs[:, 0])) + head(shared(x)))


def several():
    """A layer, convolutions, a wrapper in another, a user's layer and a whole model."""
    inputs = keras.Input((4, 3))
    x = layers.LayerNormalization()(layers.Conv1D(2, 2)(inputs))
    inner = keras.Model(inputs, layers.LSTM(3)(x) * layers.Dense(3)(layers.Flatten()(inputs)))
    convolution = layers.Conv2D(2, 3, padding="same", activation="relu")
    twice = layers.TimeDistributed(layers.TimeDistributed(layers.Dense(2), name="in"), name="out")
    return side_by_side(
        ((5, 3), layers.TimeDistributed(layers.Dense(2, "tanh"))),
        ((3, 4, 4, 2), layers.TimeDistributed(convolution)),
        ((2, 3, 4, 2), twice),
        ((3, 4), layers.TimeDistributed(Gated())),
        ((2, 4, 3), layers.TimeDistributed(inner)),
    )


def words():
    """In sentences with a mask, and looked up by step."""
    inputs = keras.Input((2, 3), dtype="int32")
    x = layers.Embedding(20, 3, mask_zero=True)(inputs)
    x = layers.TimeDistributed(layers.LSTM(3, return_sequences=True))(x)
    looked_up = layers.TimeDistributed(layers.Embedding(20, 3))(layers.Reshape((2, 3, 1))(inputs))
    return keras.Model(inputs, head(x) + head(looked_up))


@each(
    "build",
    [several, words, inside_and_outside, *([] if KERAS_3 else [masked_words_in_sentences])],
)
def test_equals_the_loop(build):
    assert_equals_the_loop(build(), counts=(0, 1, 3), tolerance=2e-5)


def test_the_steps_of_one_example_are_clipped_together():
    assert_clipped_to_the_norm(dense(), clip=1e-3)


def test_the_wrapper_is_as_it_was():
    model = dense()
    wrapper = model.layers[1]
    before = dict(vars(wrapper))
    rows = example_rows(model, 2)
    book_keeping(model, loss_function(model), rows, model.trainable_variables, 1.0)
    assert "call" not in vars(wrapper)
    assert "compute_mask" not in vars(wrapper)
    if not KERAS_3:
        assert wrapper._always_use_reshape == before["_always_use_reshape"]


@each("inner", [lambda: layers.Dense(2), Gated])
def test_a_number_of_rows_that_is_known_at_run_time_only(inner):
    model = model_over((3, 4), layers.TimeDistributed(inner()))
    loss_fn = loss_function(model)
    variables = model.trainable_variables
    specs = [tf.TensorSpec([None, *t.shape[1:]], t.dtype) for t in example_rows(model, 1)]

    def gradients(*rows):
        return book_keeping(model, loss_fn, rows, variables, 0.1).gradients

    traced = tf.function(gradients, input_signature=specs, autograph=False)
    for count in (1, 4):
        rows = example_rows(model, count)
        expected = looped_sum(loss_fn, rows, variables, 0.1)
        assert relative_error([g.numpy() for g in traced(*rows)], expected) < 1e-5


# --- rows that no rule has said to be steps ---


class Steps(layers.TimeDistributed):
    """A subclass may do what it likes with the steps, and is not taken for its parent."""

    def call(self, inputs, training=None, mask=None):
        steps = self.layer(tf.reshape(inputs, [-1, *inputs.shape[2:]]))
        return tf.reshape(steps, [-1, inputs.shape[1], *steps.shape[1:]])


class InRows(layers.Layer):
    """Runs a layer on rows of its own making."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def call(self, inputs):
        steps = tf.reshape(self.layer(tf.reshape(inputs, [-1, 3])), [-1, 5, 2])
        return tf.ensure_shape(steps, [inputs.shape[0], 5, 2])


@each("wrapper, count", itertools.product((Steps, InRows), (1, 5)))
def test_rows_other_than_the_examples_are_rejected(wrapper, count):
    """With one example, norms by time step would broadcast against the mask unnoticed."""
    model = model_over((5, 3), wrapper(layers.Dense(2)))
    rows = example_rows(model, count)
    with pytest.raises(ValueError, match=f"for {count} examples: it reads"):
        book_keeping(model, loss_function(model), rows, model.trainable_variables, 0.1)


def test_rows_other_than_the_examples_are_rejected_at_run_time():
    shared = layers.Dense(2)
    inputs = keras.Input((5, 3))
    outputs = head(InRows(shared)(inputs)) + shared(inputs[:, 0])
    model = keras.Model(inputs, outputs)
    loss_fn = loss_function(model)

    @tf.function(
        input_signature=[tf.TensorSpec([None, *t.shape[1:]]) for t in example_rows(model, 1)],
        autograph=False,
    )
    def gradients(*rows):
        return book_keeping(model, loss_fn, rows, model.trainable_variables, 0.1).gradients

    for count in (1, 5):
        with pytest.raises(tf.errors.InvalidArgumentError):
            gradients(*example_rows(model, count))


def test_an_unknown_number_of_steps_is_rejected():
    inputs = keras.Input((None, 3))
    x = layers.TimeDistributed(layers.Dense(2), name="steps")(inputs)
    model = keras.Model(inputs, layers.Dense(2)(layers.GlobalAveragePooling1D()(x)))
    loss_fn = loss_function(model)

    @tf.function(input_signature=[tf.TensorSpec([2, None, 3])], autograph=False)
    def gradients(x):
        rows = (x, tf.zeros([2, 2]), tf.ones(2), tf.ones(2))
        return book_keeping(model, loss_fn, rows, model.trainable_variables, 0.1).gradients

    with pytest.raises(ValueError, match="number of steps in layer 'steps'"):
        gradients(tf.ones([2, 4, 3]))


def test_several_rows_of_the_model_can_belong_to_each_example():
    """What augmentation needs: all taps are told so by their caller, wrappers' steps on top."""
    model = dense()
    with tf.GradientTape() as tape:
        with Taps(model, model.trainable_variables, rows_per_example=4).attached(tape) as taps:
            model(tf.ones([8, 5, 3]))
    assert [tap.rows_per_example for tap in taps.calls] == [20, 4]


def test_a_users_wrapper_can_have_a_rule():

    class Halves(layers.Layer):
        """Runs a layer on both halves of the features."""

        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def call(self, inputs):
            rows, features = inputs.shape
            outputs = self.layer(tf.reshape(inputs, [-1, features // 2]))
            return tf.reshape(outputs, [rows or -1, 2 * outputs.shape[-1]])

    @register_rule(Halves)
    class HalvesRule(WrapperRule):
        def rows_per_row(self, layer, inputs):
            return 2

    assert_equals_the_loop(model_over((6,), Halves(layers.Dense(2, "tanh"))), counts=(1, 3))
