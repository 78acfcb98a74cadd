"""Layers without a rule: what they are called with, what they give, and how they are called."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.looped_reference import (
    assert_equals_the_loop,
    assert_graph_equals_the_loop,
    double_precision,
    example_rows,
    loss_function,
)
from tfdpnorm.gradients import book_keeping
from tfdpnorm.gradients.rules import fallback
from tfdpnorm.independence import prove_training

layers = keras.layers
pytestmark = pytest.mark.filterwarnings("ignore:There is no gradient rule")


class Attention(layers.Layer):
    """Of a user's, with a mask that is the same for all examples."""

    def build(self, shape):
        self.q, self.k = (self.add_weight(name=name, shape=(shape[-1], shape[-1])) for name in "qk")

    def call(self, x, bias):
        scores = tf.matmul(x @ self.q, x @ self.k, transpose_b=True) + bias
        return tf.matmul(tf.nn.softmax(scores), x)


def attention_model(words, bias):
    inputs = keras.Input((words, 4))
    x = Attention()(inputs, bias=bias)
    return keras.Model(inputs, layers.Dense(1)(layers.GlobalAveragePooling1D()(x)))


@pytest.fixture(autouse=True)
def a_gradient_for_each_row(monkeypatch):
    """As for layers whose operations do not say it."""
    monkeypatch.setattr(fallback, "joins_of_call", lambda *_: None)


def test_a_mask_as_large_as_the_batch_is_not_split_over_it():
    """Row i would get row i of the mask."""
    words = 8
    mask = -9.0 * (1 - tf.linalg.band_part(tf.ones([words, words]), -1, 0))
    model = attention_model(words, mask)
    proof = prove_training(model, "mse", tf.TensorSpec([8, words, 4]), tf.TensorSpec([8, 1]))
    assert proof.holds, proof.obstacle
    assert_graph_equals_the_loop(model, 8)


class Reading(layers.Layer):
    """Each row attends to its own context, if it has one, and to a table of four entries."""

    def build(self, shape):
        self.w = self.add_weight(name="w", shape=(3, 3))

    def call(self, x, table, context=None):
        x = x @ self.w if context is None else x @ self.w * context
        return tf.nn.softmax(tf.matmul(x, table, transpose_b=True)) @ table


class ReadingModel(keras.Model):
    """Gives the layer a table of as many entries as there are rows, in three ways."""

    def __init__(self, how):
        super().__init__()
        self.how, self.reading, self.head = how, Reading(), layers.Dense(2)
        self.entries = layers.Dense(3, trainable=False)
        numbers = np.random.default_rng(0).normal(size=(4, 3))
        self.constant = tf.constant(numbers, tf.float32)

    def call(self, x):
        if self.how == "by keyword":
            return self.head(self.reading(x, table=self.constant, context=tf.tanh(x)))
        table = self.constant if self.how == "constant" else self.entries(tf.eye(4))
        return self.head(self.reading(x, table))


@each("how", ["constant", "of a layer", "by keyword"])
def test_a_table_with_an_entry_per_row_is_not_split_over_rows(how):
    inputs = keras.Input((3,))
    model = keras.Model(inputs, ReadingModel(how)(inputs))
    rows = example_rows(model, 4)
    assert_graph_equals_the_loop(model, 4)
    with pytest.raises(ValueError, match="eager mode"):
        book_keeping(model, loss_function(model), rows, model.trainable_variables, 0.5)


class Turned(layers.Layer):
    """Takes the examples of its second argument along another axis."""

    def build(self, shape):
        self.w = self.add_weight(name="w", shape=(3, 3))

    def call(self, x, turned):
        return x @ self.w * tf.transpose(turned)


def test_examples_along_another_axis_of_an_argument_are_rejected():
    inputs = keras.Input((3,))
    turned = layers.Lambda(tf.transpose)(layers.Dense(3)(inputs))
    model = keras.Model(inputs, layers.Dense(2)(Turned()(inputs, turned)))
    with pytest.raises(
        ValueError, match=r"to take and return 4 rows, got inputs of shapes \[\(3, 4"
    ):
        assert_graph_equals_the_loop(model, 4)


class Film(layers.Layer):
    """Scales by rows that are no argument of its call."""

    context = None

    def build(self, shape):
        self.w = self.add_weight(name="w", shape=(shape[-1], 3))

    def call(self, x):
        return tf.matmul(x, self.w) * self.context


class FilmModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder, self.film = layers.Dense(3, "tanh"), Film()

    def call(self, x):
        self.film.context = self.encoder(x)
        return self.film(x)


class FilmOfFirst(Film):
    """Of as many of these rows as it has of its input: of a row alone, the first one."""

    def call(self, x):
        return tf.matmul(x, self.w) * self.context[: tf.shape(x)[0]]


@each("film", [Film, FilmOfFirst])
def test_rows_that_a_layer_reads_from_an_attribute_are_rejected(film):
    model = FilmModel()
    model.film = film()
    model(tf.zeros([1, 4]))
    with pytest.raises(ValueError, match="reads '.*Tanh:0'"):
        prove_training(model, "mse", tf.TensorSpec([6, 4]), tf.TensorSpec([6, 3]))
    if film is Film:
        rows = tf.ones([6, 4]), tf.ones([6, 3]), tf.ones(6), tf.ones(6)

        def loss_fn(x, y, weight):
            return tf.reduce_sum(tf.square(model(x) - y), 1) * weight, y

        with pytest.raises(ValueError, match="one row for one row"):
            book_keeping(model, loss_fn, rows, model.trainable_variables, 1.0)


class ReadsConstants(layers.Layer):
    """Of its own: a variable, an array, and a tensor from before the graph."""

    def build(self, shape):
        self.w = self.add_weight(name="w", shape=(shape[-1], 3))
        self.count = self.add_weight(name="count", shape=(), trainable=False)
        self.table, self.scale = tf.ones([3]), np.ones(3, "float32")

    def call(self, x):
        return tf.matmul(x, self.w) * self.table * self.scale + self.count


def test_constants_and_variables_may_be_read():
    inputs = keras.Input((4,))
    layer = ReadsConstants()
    model = keras.Model(inputs, layer(layers.Dense(4)(layer(inputs[:, :4]) @ tf.ones([3, 4]))))
    proof = prove_training(model, "mse", tf.TensorSpec([6, 4]), tf.TensorSpec([6, 3]))
    assert proof.holds, proof.obstacle


class Chained(layers.Layer):
    """Two outputs, of which one is computed from the other."""

    def build(self, shape):
        self.w, self.v = (
            self.add_weight(name="w", shape=(shape[-1], 3)),
            self.add_weight(name="v", shape=(3, 3)),
        )

    def call(self, x):
        h = tf.tanh(x @ self.w)
        return h, tf.tanh(h @ self.v)


def test_an_output_that_is_computed_from_another_is_counted_once():
    with double_precision():
        inputs = keras.Input((4,))
        first, second = Chained()(layers.Dense(4)(inputs))
        model = keras.Model(inputs, layers.Add()([first, second]))
        assert_equals_the_loop(model)


class Spectrum(layers.Layer):
    def build(self, shape):
        self.w = self.add_weight(name="w", shape=(shape[-1], 4))

    def call(self, x):
        return tf.signal.fft(tf.cast(x @ self.w, tf.complex128))


def test_complex_outputs_have_gradients():
    with double_precision():
        inputs = keras.Input((4,))
        spectrum = Spectrum()(layers.Dense(5)(inputs))
        x = layers.Lambda(lambda z: tf.math.real(z) * tf.math.imag(z))(spectrum)
        assert_equals_the_loop(keras.Model(inputs, layers.Dense(2)(x)))


class OnlyInTraining(layers.Layer):
    def call(self, x, training=None):
        return 2.0 * x if training else x


class AsksKeras(layers.Layer):
    """Holds a layer that learns from Keras whether this is training."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = OnlyInTraining()

    def build(self, shape):
        self.w = self.add_weight(name="w", shape=(shape[-1], 3))

    def call(self, x):
        return self.inner(x @ self.w)


def test_layers_inside_know_that_it_is_training():
    with double_precision():
        model = keras.Sequential([keras.Input((4,)), AsksKeras(), layers.Dense(2)])
        assert_equals_the_loop(model)


class MaskedMean(layers.Layer):
    """Reads the mask that its input carries, by a layer inside without weights."""

    def __init__(self):
        super().__init__()
        self.pool = layers.GlobalAveragePooling1D()

    def build(self, shape):
        self.w = self.add_weight(name="w", shape=(shape[-1], 3))
        super().build(shape)

    def call(self, x):
        return self.pool(x) @ self.w


def test_each_row_carries_its_own_mask():
    inputs = keras.Input((6,), dtype="int32")
    x = layers.Embedding(20, 3, mask_zero=True)(inputs)
    model = keras.Model(inputs, layers.Dense(2)(MaskedMean()(x)))
    assert_equals_the_loop(model, counts=(2, 3))
