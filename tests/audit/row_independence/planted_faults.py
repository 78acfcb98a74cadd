"""Faults to plant: models, losses and augmentations without per-example independence.

`python -m tests.audit.row_independence.planted_faults` plants them all and says which are found.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
from tensorflow import keras

from tfdpnorm import audit

FEATURES, CLASSES = 5, 3


class Fault(NamedTuple):
    """A fault, and the checks of which each has to find it.

    Attributes:
        findings: Plants it and returns the list of `Finding`.
        checks: Names of checks that must report it.
        where: Part of the name of the layer or variable that must be blamed; None for any.
    """

    findings: Callable
    checks: set
    where: str | None = None


FAULTS = {}


def _in_a_model(*checks, where=None):
    """Decorator of a function that makes the faulty layer, to stand between two dense ones."""

    def add(make):
        def findings():
            layer = make()
            model = keras.Sequential(
                [
                    keras.Input((FEATURES,)),
                    keras.layers.Dense(6, name="before"),
                    layer,
                    keras.layers.Dense(CLASSES, name="after"),
                ]
            )
            return audit.findings(model)

        FAULTS[make.__name__] = Fault(findings, set(checks), where)
        return make

    return add


def _as_a_model(*checks, where=None):
    """Decorator of a function that makes the whole model."""

    def add(make):
        FAULTS[make.__name__] = Fault(lambda: audit.findings(make()), set(checks), where)
        return make

    return add


def _as_a_loss(*checks, labels=False):
    """Decorator of a loss."""

    def add(loss):
        y = tf.TensorSpec([None], tf.int64) if labels else tf.TensorSpec([None, CLASSES])

        def findings():
            return audit.probe_loss(loss, tf.TensorSpec([None, CLASSES]), y).findings

        FAULTS[loss.__name__] = Fault(findings, set(checks))
        return loss

    return add


def _as_an_augmentation(*checks):
    """Decorator of an augmentation of images."""

    def add(augmentation):
        def findings():
            x = tf.TensorSpec([None, 8, 8, 1])
            return audit.probe_augmentation(augmentation, x).findings

        FAULTS[augmentation.__name__] = Fault(findings, set(checks))
        return augmentation

    return add


def _layer(function):
    """A layer made of `function` alone."""
    return keras.layers.Lambda(function, name="faulty")


# Layers that Keras has


@_in_a_model("layers", "values", "gradient", "state", where="batch_normalization")
def batch_normalization():
    return keras.layers.BatchNormalization()


@_in_a_model("layers", "values", "gradient", "state")
def synchronised_batch_normalization():
    return keras.layers.BatchNormalization(synchronized=True)


@_in_a_model("values", "gradient", "state", where="moving_variance")
def batch_normalization_that_no_walk_finds():
    class Hidden(keras.layers.Layer):
        def build(self, shape):
            norm = keras.layers.BatchNormalization()
            norm.build(shape)
            self.run = lambda x, training: norm(x, training=training)

        def call(self, inputs, training=None):
            return self.run(inputs, training)

    return Hidden()


@_in_a_model("layers")
def activity_regularizer():
    return keras.layers.Dense(6, activity_regularizer="l2")


@_as_a_model("layers", "state", where="lstm")
def stateful_recurrent_layer():
    return keras.Sequential(
        [
            keras.layers.LSTM(4, stateful=True, batch_input_shape=(4, 7, 2)),
            keras.layers.Dense(CLASSES),
        ]
    )


def _adapted(layer, data):
    layer.adapt(data)
    return layer


@_in_a_model("layers", where="normalization")
def adapted_normalization():
    return _adapted(keras.layers.Normalization(), tf.random.normal([20, 6]))


@_as_a_model("layers", where="text_vectorization")
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


@_as_a_model("layers", where="string_lookup")
def adapted_string_lookup():
    lookup = _adapted(keras.layers.StringLookup(), tf.constant([["a"], ["b"]]))
    return _looked_up(lookup, tf.string)


@_as_a_model("layers", where="integer_lookup")
def adapted_integer_lookup():
    lookup = _adapted(keras.layers.IntegerLookup(), tf.constant([[3], [5]]))
    return _looked_up(lookup, tf.int64)


@_as_a_model("layers", where="discretization")
def adapted_discretization():
    bins = _adapted(keras.layers.Discretization(num_bins=4), tf.random.normal([50, 1]))
    return _looked_up(bins, tf.float32)


# Layers of one's own


@_in_a_model("values", "removal", where="faulty")
def batch_mean_behind_stop_gradient():
    return _layer(lambda x: x - tf.stop_gradient(tf.reduce_mean(x, 0)))


@_in_a_model("values", "gradient", where="faulty")
def attention_over_the_batch():
    return _layer(lambda x: tf.matmul(tf.nn.softmax(tf.matmul(x, x, transpose_b=True)), x))


@_in_a_model("gradient")
def a_small_leak():
    return _layer(lambda x: x + 1e-7 * tf.reverse(x, [0]))


@_in_a_model("values")
def a_small_leak_behind_stop_gradient():
    """Too small to be seen but in the company of an outlier."""
    others = keras.layers.Lambda(lambda x: 1e-8 * tf.stop_gradient(tf.reverse(x, [0])))
    inputs = keras.Input((6,))
    return keras.Model(inputs, inputs + others(inputs))


@_in_a_model("values", "gradient")
def neighbours_difference():
    return _layer(lambda x: x - tf.roll(x, 1, 0))


@_in_a_model("values", "gradient")
def sums_over_the_rows_before():
    return _layer(lambda x: tf.cumsum(x, exclusive=True) + x)


@_in_a_model("values", "gradient")
def difference_from_the_last_row():
    return _layer(lambda x: x - x[-1:])


@_as_a_model("values", "removal")
def outputs_for_pairs_of_rows():
    inputs = keras.Input((FEATURES,))
    x = keras.layers.Dense(CLASSES)(inputs)
    return keras.Model(inputs, tf.matmul(x, x, transpose_b=True))


@_in_a_model("values")
def ranks_in_the_batch():
    return _layer(lambda x: x * tf.cast(tf.argsort(tf.argsort(x, axis=0), axis=0), x.dtype))


@_in_a_model("values")
def routing_of_the_top_rows():
    """A mixture of experts whose expert takes no more than two rows."""

    def route(x):
        score = tf.reduce_sum(x, 1)
        taken = tf.math.top_k(score, k=2).indices
        gate = tf.reduce_max(tf.one_hot(taken, tf.shape(x)[0]), 0)
        return x * gate[:, tf.newaxis]

    return _layer(route)


@_in_a_model("removal")
def scaling_by_the_size_of_the_batch():
    return _layer(lambda x: x / tf.cast(tf.shape(x)[0], x.dtype))


@_in_a_model("removal")
def scaling_by_the_static_size_of_the_batch():
    return _layer(lambda x: x / (x.shape[0] or 1))


@_in_a_model("removal")
def gradient_scaled_by_the_size_of_the_batch():
    @tf.custom_gradient
    def scaled(x):
        return x, lambda dy: dy / tf.cast(tf.shape(x)[0], x.dtype)

    return _layer(scaled)


@_in_a_model("gradient")
def value_neutral_mixing_of_gradients():
    def mixed(x):
        others = tf.reverse(x, [0]) ** 2
        return x + others - tf.stop_gradient(others)

    return _layer(mixed)


@_in_a_model("gradient")
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


@_in_a_model("state", where="seen")
def running_mean():
    class RunningMean(_Stateful):
        def call(self, inputs, training=None):
            if training:
                self.seen.assign(0.99 * self.seen + 0.01 * tf.reduce_mean(inputs, 0))
            return inputs

    return RunningMean()


@_in_a_model("state")
def memory_queue_outside_of_weights():
    memory = {"rows": [tf.Variable(tf.zeros([8, 6]), trainable=False, name="memory")]}

    class Queue(keras.layers.Layer):
        def call(self, inputs):
            (rows,) = memory["rows"]
            rows.assign(tf.concat([inputs, rows[: -tf.shape(inputs)[0]]], 0))
            return inputs

    return Queue(name="faulty")


@_in_a_model("state")
def add_metric():
    class Metric(keras.layers.Layer):
        def call(self, inputs):
            self.add_metric(tf.reduce_mean(inputs), name="activity")
            return inputs

    return Metric(name="faulty")


@_in_a_model("state")
def metric_in_a_layer():
    class Metric(keras.layers.Layer):
        def __init__(self):
            super().__init__(name="faulty")
            self.largest = keras.metrics.Mean(name="largest")

        def call(self, inputs):
            self.largest.update_state(tf.reduce_max(inputs))
            return inputs

    return Metric()


@_as_a_model("losses")
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


@_as_a_model("layers")
def add_loss_to_a_functional_model():
    inputs = keras.Input((FEATURES,))
    outputs = keras.layers.Dense(CLASSES)(inputs)
    model = keras.Model(inputs, outputs)
    model.add_loss(tf.reduce_mean(outputs**2))
    return model


@_in_a_model("values", "gradient")
def batch_mean_beside_dropout():
    dropout = keras.layers.Dropout(0.5)
    return keras.Sequential([dropout, _layer(lambda x: x - tf.reduce_mean(x, 0))])


@_as_a_model("shape")
def outputs_without_rows():
    inputs = keras.Input((FEATURES,))
    outputs = keras.layers.Dense(CLASSES)(inputs)
    return keras.Model(inputs, tf.reduce_mean(outputs, 0))


# Losses


@_as_a_loss("values", "gradient")
def contrastive_loss(y, predictions):
    del y
    return -tf.linalg.diag_part(
        tf.nn.log_softmax(tf.matmul(predictions, predictions, transpose_b=True))
    )


@_as_a_loss("values")
def loss_over_the_batch_s_maximum(y, predictions):
    values = tf.reduce_mean((y - predictions) ** 2, -1)
    return values / tf.stop_gradient(tf.reduce_max(values))


@_as_a_loss("values", "gradient")
def loss_less_the_batch_s_mean(y, predictions):
    values = tf.reduce_mean((y - predictions) ** 2, -1)
    return values - 0.1 * tf.reduce_mean(values)


@_as_a_loss("values", labels=True)
def loss_by_counts_of_classes(y, predictions):
    counts = tf.reduce_sum(tf.one_hot(y, CLASSES), 0)
    values = tf.nn.sparse_softmax_cross_entropy_with_logits(y, predictions)
    return values / tf.gather(counts, y)


@_as_a_loss("removal")
def loss_over_the_size_of_the_batch(y, predictions):
    values = tf.reduce_mean((y - predictions) ** 2, -1)
    return values / tf.cast(tf.shape(values)[0], values.dtype)


@_as_a_loss("removal")
def loss_that_only_shows_the_size_of_the_batch(y, predictions):
    values = tf.reduce_mean((y - predictions) ** 2, -1)
    return values + tf.cast(tf.shape(values)[0], values.dtype)


@_as_a_loss("shape")
def reduced_loss(y, predictions):
    return tf.reduce_mean((y - predictions) ** 2)


@_as_a_loss("gradient")
def loss_with_value_neutral_mixing(y, predictions):
    values = tf.reduce_mean((y - predictions) ** 2, -1)
    others = tf.reverse(values, [0])
    return values + others - tf.stop_gradient(others)


# Augmentations


@_as_an_augmentation("values", "gradient")
def mixup(x):
    share = tf.random.uniform([])
    return share * x + (1.0 - share) * tf.reverse(x, [0])


@_as_an_augmentation("values")
def cutmix(x):
    return tf.concat([x[:, :4], tf.roll(x, 1, 0)[:, 4:]], 1)


@_as_an_augmentation("values")
def shuffled_rows(x):
    return tf.random.shuffle(x)


@_as_an_augmentation("values")
def rolled_rows(x):
    return tf.roll(x, tf.random.uniform([], 1, 3, tf.int32), 0)


@_as_an_augmentation("values")
def scaled_by_the_batch_s_maximum(x):
    return x / tf.reduce_max(tf.abs(x))


def caught(fault):
    """Whether each of a fault's checks finds it, and blames what it should; and the findings."""
    found = fault.findings()
    blamed = fault.where is None or any(fault.where in finding.where for finding in found)
    return blamed and fault.checks <= {finding.check for finding in found}, found


if __name__ == "__main__":
    results = {name: caught(fault) for name, fault in FAULTS.items()}
    for name, (is_caught, found) in results.items():
        checks = ", ".join(sorted({finding.check for finding in found}))
        print(f"{'caught' if is_caught else 'MISSED':8}{name:45}{checks}")
    print(f"{len(FAULTS)} faults planted, {sum(r[0] for r in results.values())} caught")
