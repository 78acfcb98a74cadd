"""What leaves a layer otherwise than as what its call returns, and who may read it."""

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.looped_reference import (
    assert_equals_the_loop,
    assert_graph_equals_the_loop,
    double_precision,
    loss_function,
)
from tfdpnorm.gradients import book_keeping
from tfdpnorm.gradients.rules import fallback
from tfdpnorm.independence import prove_training

layers = keras.layers
pytestmark = pytest.mark.filterwarnings("ignore:There is no gradient rule")


class Leaves(layers.Layer):
    """Leaves in an attribute what a function makes of (inputs, weights, outputs)."""

    def __init__(self, leave):
        super().__init__()
        self.leave, self.left = leave, None

    def build(self, shape):
        self.w = self.add_weight(name="w", shape=(shape[-1], 3))

    def call(self, x):
        outputs = tf.tanh(x @ self.w)
        self.left = self.leave(x, self.w, outputs)
        return outputs


class Reads(keras.Model):
    """Adds to a layer's outputs what it has left."""

    def __init__(self, leave):
        super().__init__()
        self.first, self.leaves, self.last = layers.Dense(4), Leaves(leave), layers.Dense(1)

    def call(self, x):
        outputs = self.leaves(self.first(x))
        return self.last(outputs + tf.cast(tf.reduce_sum(self.leaves.left, 1, True), x.dtype))


class PositionTable(layers.Layer):
    """Position embeddings, which have a rule of their own, that leave a part of their table."""

    left = None

    def build(self, shape):
        self.table = self.add_weight(name="table", shape=shape[1:])

    def call(self, x):
        self.left = self.table[:, :1] * 2.0
        return self.table * 1.0


class ReadsTable(keras.Model):
    def __init__(self):
        super().__init__()
        self.positions, self.last = PositionTable(), layers.Dense(1)

    def call(self, x):
        x = x + self.positions(x)
        return self.last(tf.reduce_mean(x * (1.0 + self.positions.left), 1))


def in_a_loop(x, w, outputs):
    """Through a list of tensors, which is no tensor of numbers."""
    rows = tf.TensorArray(x.dtype, 3, element_shape=outputs.shape)
    for i in range(3):
        rows = rows.write(i, outputs * w[0, i])
    return rows.concat()[: x.shape[0]]


def gathered(x, w, outputs):
    return tf.gather(w, tf.zeros([x.shape[0]], tf.int32)) * x[:, :3]


def proof_of(model, shape=(6, 4)):
    model(tf.zeros([1, *shape[1:]]))
    return prove_training(model, "mse", tf.TensorSpec(shape), tf.TensorSpec([6, 1]))


LEFT = [
    lambda x, w, outputs: outputs,
    lambda x, w, outputs: x @ w,
    lambda x, w, outputs: x[:, :3] * w[:1],
    in_a_loop,
    gathered,
]


@each("leave", LEFT)
def test_reads_of_attributes_of_a_layer_are_rejected(leave):
    """Where the gradient comes from its outputs alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fallback, "joins_of_call", lambda *_: None)
        with pytest.raises(ValueError, match="return value"):
            proof_of(Reads(leave))


@each("leave", LEFT[:3])
def test_reads_behind_what_is_watched_have_gradients(leave):
    inputs = keras.Input((4,))
    assert_graph_equals_the_loop(keras.Model(inputs, Reads(leave)(inputs)), 6, tolerance=1e-5)


def test_position_embeddings_may_not_leave_any_either():
    model = ReadsTable()
    model(tf.zeros([1, 5, 4]))

    @tf.function(autograph=False)
    def clipped_sum(*rows):
        return book_keeping(
            model,
            loss_function(model),
            rows,
            model.trainable_variables,
            1.0,
            broadcast=(model.positions,),
        ).gradients

    rows = (tf.ones([6, 5, 4]), tf.ones([6, 1]), tf.ones(6), tf.ones(6))
    with pytest.raises(ValueError, match="return value"):
        clipped_sum(*rows)


def by_its_inputs(layer):
    """A model whose outputs hold its gradient by its inputs, as those of physics do."""

    class Differentiates(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner, self.last = layer, layers.Dense(1)

        def call(self, x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                outputs = self.inner(x)
            slopes = tape.gradient(outputs, x)
            return self.last(outputs) + tf.reduce_sum(
                tf.reshape(slopes, [tf.shape(x)[0], -1]), 1, True
            )

    return Differentiates()


@each(
    "layer, shape",
    [
        (lambda: layers.Dense(3, "tanh"), (4,)),
        (lambda: layers.LayerNormalization(), (4,)),
        (lambda: keras.Sequential([layers.Conv1D(3, 2), layers.Flatten()]), (5, 2)),
        (lambda: layers.LSTM(3), (5, 2)),
        (lambda: layers.GRU(3, reset_after=False), (60, 2)),
        (lambda: Leaves(lambda x, w, outputs: outputs), (4,)),
    ],
)
def test_a_gradient_by_inputs_is_rejected(layer, shape):
    """What it depends on reads the weights past the z's."""
    with pytest.raises(ValueError, match="tf.GradientTape|other code"):
        proof_of(by_its_inputs(layer()), (6, *shape))


def test_a_gradient_by_inputs_in_the_loss_is_rejected():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, "tanh"), layers.Dense(1)])

    @tf.function(autograph=False)
    def clipped_sum(x, y, weight, mask):
        def loss_fn(x, y, weight):
            with tf.GradientTape() as tape:
                tape.watch(x)
                predictions = model(x, training=True)
            penalty = tf.reduce_sum(tape.gradient(predictions, x) ** 2, 1)
            return penalty * weight, predictions

        rows = (x, y, weight, mask)
        return book_keeping(model, loss_fn, rows, model.trainable_variables, 1.0).gradients

    with pytest.raises(ValueError, match="tf.GradientTape"):
        clipped_sum(tf.ones([6, 4]), tf.ones([6, 1]), tf.ones(6), tf.ones(6))


def test_a_gradient_without_weights_may_be_read():
    """Of what comes after them: of an activation, for instance."""

    class Penalised(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.last = layers.Dense(3), layers.Dense(1)

        def call(self, x):
            z = self.first(x)
            with tf.GradientTape() as tape:
                tape.watch(z)
                outputs = tf.tanh(z) ** 3
            return self.last(outputs + tape.gradient(outputs, z))

    with double_precision():
        model = Penalised()
        proof = proof_of(model)
        assert proof.holds, proof.obstacle
        inputs = keras.Input((4,))
        assert_equals_the_loop(keras.Model(inputs, model(inputs)))


@each(
    "leave, read",
    [
        (lambda x, w, outputs: tf.tanh(x), tf.identity),
        (lambda x, w, outputs: tf.argmax(x @ w, 1)[:, tf.newaxis], tf.identity),
        (lambda x, w, outputs: tf.cast(outputs > 0.3, tf.int32), tf.identity),
        (lambda x, w, outputs: x @ w, tf.stop_gradient),
        (lambda x, w, outputs: x @ w, lambda left: tf.cast(left > 0.3, tf.int32)),
    ],
)
def test_attributes_may_be_read_without_gradients_of_weights(leave, read):
    class ReadsSo(Reads):
        def call(self, x):
            outputs = self.leaves(self.first(x))
            left = tf.cast(read(self.leaves.left), x.dtype)
            return self.last(outputs + tf.reduce_sum(left, 1, True))

    with double_precision():
        model = ReadsSo(leave)
        proof = proof_of(model)
        assert proof.holds, proof.obstacle
        inputs = keras.Input((4,))
        assert_equals_the_loop(keras.Model(inputs, model(inputs)))
