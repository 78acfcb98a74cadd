"""Faults to plant: models, losses and augmentations without per-example independence."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
from tensorflow import keras

from tfdpnorm import independence
from tfdpnorm.independence.examples import input_specs
from tfdpnorm.independence.known_layers import known_faults
from tfdpnorm.independence.outputs import prove
from tfdpnorm.keras_compat.variables import KERAS_3

P, FEATURES, CLASSES = 8, 5, 3


def specs_of(model):
    """The specs that a model takes; of [None, FEATURES] for one that Keras 3 keeps no specs of."""
    specs = input_specs(model)
    return tf.TensorSpec([None, FEATURES]) if specs is None else specs


class Fault(NamedTuple):
    """A fault, and what stops it.

    Attributes:
        subject: "model", "loss" or "augmentation".
        make: Makes the Keras model, or is the loss or the augmentation.
        where: Part of the name of the layer or variable that must be blamed; None for any.
        labels: Whether the targets of a loss are labels.
        is_constant: Whether it only depends on the number of rows of a physical batch, a constant
            of the run: what it computes is sound.
    """

    subject: str
    make: Callable
    where: str | None = None
    labels: bool = False
    is_constant: bool = False


FAULTS = {}


def stopped(fault):
    """What stops a fault on the default path, in words; None if it would be trained."""
    if fault.subject == "augmentation":
        return prove(fault.make, (tf.TensorSpec([P, 8, 8, 1]),), P).obstacle
    if fault.subject == "loss":
        model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(CLASSES)])
        loss, y = fault.make, tf.TensorSpec([P, CLASSES])
        if fault.labels:
            y = tf.TensorSpec([P], tf.int64)
    else:
        model, loss, y = fault.make(), "mse", tf.TensorSpec([P, CLASSES])
        named = list(known_faults(model))
        if named:
            return named[0]
    spec = specs_of(model)
    try:
        proof = independence.prove_training(
            model, loss, tf.TensorSpec([P, *spec.shape[1:]], spec.dtype), y
        )
        independence.check_no_added_losses(model)  # as each step does
    except ValueError as error:  # by the engine
        return str(error)
    return proof.obstacle


def _in_a_model(where=None, is_constant=False):
    """Decorator of a function that makes the faulty layer, to stand between two dense ones."""

    def add(make):
        def model():
            return keras.Sequential(
                [
                    keras.Input((FEATURES,)),
                    keras.layers.Dense(6, name="before"),
                    make(),
                    keras.layers.Dense(CLASSES, name="after"),
                ]
            )

        FAULTS[make.__name__] = Fault("model", model, where, is_constant=is_constant)
        return make

    return add


def _as_a_model(where=None):
    """Decorator of a function that makes the whole model."""

    def add(make):
        FAULTS[make.__name__] = Fault("model", make, where)
        return make

    return add


def _as_a_loss(labels=False, is_constant=False):
    """Decorator of a loss."""

    def add(loss):
        FAULTS[loss.__name__] = Fault("loss", loss, None, labels, is_constant)
        return loss

    return add


def _as_an_augmentation():
    """Decorator of an augmentation of images."""

    def add(augmentation):
        FAULTS[augmentation.__name__] = Fault("augmentation", augmentation)
        return augmentation

    return add


def _layer(function):
    """A layer made of `function` alone."""
    return keras.layers.Lambda(function, name="faulty")


# Layers that Keras has


@_in_a_model(where="batch_normalization")
def batch_normalization():
    return keras.layers.BatchNormalization()


@_in_a_model()
def synchronised_batch_normalization():
    return keras.layers.BatchNormalization(synchronized=True)


@_in_a_model(where="hidden")
def batch_normalization_that_no_walk_finds():
    class Hidden(keras.layers.Layer):
        def build(self, shape):
            norm = keras.layers.BatchNormalization()
            norm.build(shape)
            self.run = lambda x, training: norm(x, training=training)

        def call(self, inputs, training=None):
            return self.run(inputs, training)

    return Hidden()


@_in_a_model()
def activity_regularizer():
    return keras.layers.Dense(6, activity_regularizer="l2")


@_as_a_model(where="lstm")
def stateful_recurrent_layer():
    return keras.Sequential(
        [
            keras.Input((7, 2), batch_size=4),
            keras.layers.LSTM(4, stateful=True),
            keras.layers.Dense(CLASSES),
        ]
    )


def _adapted(layer, data):
    layer.adapt(data)
    return layer


@_in_a_model(where="normalization")
def adapted_normalization():
    return _adapted(keras.layers.Normalization(), tf.random.normal([20, 6]))


@_as_a_model(where="text_vectorization")
def adapted_text_vectorization():
    words = _adapted(
        keras.layers.TextVectorization(output_sequence_length=4), tf.constant(["a b", "b c"])
    )
    return keras.Sequential(
        [
            keras.Input((), dtype=tf.string),
            words,
            keras.layers.Embedding(9, 3),
            keras.layers.Flatten(),
            keras.layers.Dense(CLASSES),
        ]
    )


def _looked_up(lookup, dtype):
    return keras.Sequential(
        [
            keras.Input((4,), dtype=dtype),
            lookup,
            keras.layers.Embedding(9, 3),
            keras.layers.Flatten(),
            keras.layers.Dense(CLASSES),
        ]
    )


@_as_a_model(where="string_lookup")
def adapted_string_lookup():
    lookup = _adapted(keras.layers.StringLookup(), tf.constant([["a"], ["b"]]))
    return _looked_up(lookup, tf.string)


@_as_a_model(where="integer_lookup")
def adapted_integer_lookup():
    lookup = _adapted(keras.layers.IntegerLookup(), tf.constant([[3], [5]]))
    return _looked_up(lookup, tf.int64)


@_as_a_model(where="discretization")
def adapted_discretization():
    bins = _adapted(keras.layers.Discretization(num_bins=4), tf.random.normal([50, 1]))
    return _looked_up(bins, tf.float32)


# Layers of one's own


@_in_a_model(where="faulty")
def batch_mean_behind_stop_gradient():
    return _layer(lambda x: x - tf.stop_gradient(tf.reduce_mean(x, 0)))


@_in_a_model(where="faulty")
def attention_over_the_batch():
    return _layer(lambda x: tf.matmul(tf.nn.softmax(tf.matmul(x, x, transpose_b=True)), x))


@_in_a_model()
def a_small_leak():
    return _layer(lambda x: x + 1e-7 * tf.reverse(x, [0]))


@_in_a_model()
def a_small_leak_behind_stop_gradient():
    """Too small to be seen but in the company of an outlier."""
    others = keras.layers.Lambda(lambda x: 1e-8 * tf.stop_gradient(tf.reverse(x, [0])))
    inputs = keras.Input((6,))
    return keras.Model(inputs, inputs + others(inputs))


@_in_a_model()
def neighbours_difference():
    return _layer(lambda x: x - tf.roll(x, 1, 0))


@_in_a_model()
def sums_over_the_rows_before():
    return _layer(lambda x: tf.cumsum(x, exclusive=True) + x)


@_in_a_model()
def difference_from_the_last_row():
    return _layer(lambda x: x - x[-1:])


@_as_a_model()
def outputs_for_pairs_of_rows():
    inputs = keras.Input((FEATURES,))
    x = keras.layers.Dense(CLASSES)(inputs)
    return keras.Model(inputs, _layer(lambda x: tf.matmul(x, x, transpose_b=True))(x))


@_in_a_model()
def ranks_in_the_batch():
    return _layer(lambda x: x * tf.cast(tf.argsort(tf.argsort(x, axis=0), axis=0), x.dtype))


@_in_a_model()
def routing_of_the_top_rows():
    """A mixture of experts whose expert takes no more than two rows."""

    def route(x):
        score = tf.reduce_sum(x, 1)
        taken = tf.math.top_k(score, k=2).indices
        gate = tf.reduce_max(tf.one_hot(taken, tf.shape(x)[0]), 0)
        return x * gate[:, tf.newaxis]

    return _layer(route)


@_in_a_model(is_constant=True)
def scaling_by_the_size_of_the_batch():
    return _layer(lambda x: x / tf.cast(tf.shape(x)[0], x.dtype))


@_in_a_model(is_constant=True)
def scaling_by_the_static_size_of_the_batch():
    return _layer(lambda x: x / (x.shape[0] or 1))


@_in_a_model(is_constant=True)
def gradient_scaled_by_the_size_of_the_batch():
    @tf.custom_gradient
    def scaled(x):
        return x, lambda dy: dy / tf.cast(tf.shape(x)[0], x.dtype)

    return _layer(scaled)


@_in_a_model()
def value_neutral_mixing_of_gradients():
    def mixed(x):
        others = tf.reverse(x, [0]) ** 2
        return x + others - tf.stop_gradient(others)

    return _layer(mixed)


@_in_a_model()
def gradient_clipped_with_the_batch():
    """Autodiff stays within rows here: only the gradients of others move."""

    @tf.custom_gradient
    def clipped(x):
        return x, lambda dy: dy / (1.0 + tf.norm(x))

    return _layer(clipped)


class _Stateful(keras.layers.Layer):
    def __init__(self):
        super().__init__(name="faulty")
        self.seen = tf.Variable(tf.zeros([6]), trainable=False, name="seen")


@_in_a_model(where="faulty")
def running_mean():
    class RunningMean(_Stateful):
        def call(self, inputs, training=None):
            if training:
                self.seen.assign(0.99 * self.seen + 0.01 * tf.reduce_mean(inputs, 0))
            return inputs

    return RunningMean()


@_in_a_model()
def memory_queue_outside_of_weights():
    memory = {"rows": [tf.Variable(tf.zeros([8, 6]), trainable=False, name="memory")]}

    class Queue(keras.layers.Layer):
        def call(self, inputs):
            (rows,) = memory["rows"]
            rows.assign(tf.concat([inputs, rows[: -tf.shape(inputs)[0]]], 0))
            return inputs

    return Queue(name="faulty")


def add_metric():
    class Metric(keras.layers.Layer):
        def call(self, inputs):
            self.add_metric(tf.reduce_mean(inputs), name="activity")
            return inputs

    return Metric(name="faulty")


@_in_a_model()
def metric_in_a_layer():
    class Metric(keras.layers.Layer):
        def __init__(self):
            super().__init__(name="faulty")
            self.largest = keras.metrics.Mean(name="largest")

        def call(self, inputs):
            self.largest.update_state(tf.reduce_max(inputs))
            return inputs

    return Metric()


@_as_a_model()
def add_loss_in_a_call():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.head = keras.layers.Dense(CLASSES)

        def call(self, inputs, training=None):
            outputs = self.head(inputs)
            if training:
                self.add_loss(tf.reduce_mean(outputs**2))
            return outputs

    model = Model()
    model(tf.zeros([2, FEATURES]))
    return model


def add_loss_to_a_functional_model():
    inputs = keras.Input((FEATURES,))
    outputs = keras.layers.Dense(CLASSES)(inputs)
    model = keras.Model(inputs, outputs)
    model.add_loss(tf.reduce_mean(outputs**2))
    return model


if not KERAS_3:  # which has neither
    _in_a_model()(add_metric)
    _as_a_model()(add_loss_to_a_functional_model)


@_in_a_model()
def batch_mean_beside_dropout():
    dropout = keras.layers.Dropout(0.5)
    return keras.Sequential([dropout, _layer(lambda x: x - tf.reduce_mean(x, 0))])


@_as_a_model()
def outputs_without_rows():
    inputs = keras.Input((FEATURES,))
    outputs = keras.layers.Dense(CLASSES)(inputs)
    return keras.Model(inputs, _layer(lambda x: tf.reduce_mean(x, 0))(outputs))


# Losses


@_as_a_loss()
def contrastive_loss(y, predictions):
    del y
    return -tf.linalg.diag_part(
        tf.nn.log_softmax(tf.matmul(predictions, predictions, transpose_b=True))
    )


@_as_a_loss()
def loss_over_the_batch_s_maximum(y, predictions):
    values = tf.reduce_mean((y - predictions) ** 2, -1)
    return values / tf.stop_gradient(tf.reduce_max(values))


@_as_a_loss()
def loss_less_the_batch_s_mean(y, predictions):
    values = tf.reduce_mean((y - predictions) ** 2, -1)
    return values - 0.1 * tf.reduce_mean(values)


@_as_a_loss(labels=True)
def loss_by_counts_of_classes(y, predictions):
    counts = tf.reduce_sum(tf.one_hot(y, CLASSES), 0)
    values = tf.nn.sparse_softmax_cross_entropy_with_logits(y, predictions)
    return values / tf.gather(counts, y)


@_as_a_loss(is_constant=True)
def loss_over_the_size_of_the_batch(y, predictions):
    values = tf.reduce_mean((y - predictions) ** 2, -1)
    return values / tf.cast(tf.shape(values)[0], values.dtype)


@_as_a_loss(is_constant=True)
def loss_that_only_shows_the_size_of_the_batch(y, predictions):
    values = tf.reduce_mean((y - predictions) ** 2, -1)
    return values + tf.cast(tf.shape(values)[0], values.dtype)


@_as_a_loss()
def reduced_loss(y, predictions):
    return tf.reduce_mean((y - predictions) ** 2)


@_as_a_loss()
def loss_with_value_neutral_mixing(y, predictions):
    values = tf.reduce_mean((y - predictions) ** 2, -1)
    others = tf.reverse(values, [0])
    return values + others - tf.stop_gradient(others)


# Augmentations


@_as_an_augmentation()
def mixup(x):
    share = tf.random.uniform([])
    return share * x + (1.0 - share) * tf.reverse(x, [0])


@_as_an_augmentation()
def cutmix(x):
    return tf.concat([x[:, :4], tf.roll(x, 1, 0)[:, 4:]], 1)


@_as_an_augmentation()
def shuffled_rows(x):
    return tf.random.shuffle(x)


@_as_an_augmentation()
def rolled_rows(x):
    return tf.roll(x, tf.random.uniform([], 1, 3, tf.int32), 0)


@_as_an_augmentation()
def scaled_by_the_batch_s_maximum(x):
    return x / tf.reduce_max(tf.abs(x))
