"""Faults that others found, each as a small model, loss or augmentation, and what stops them.

The classes are those that external reviewers broke the guarantee with when a randomized check was
all there was: its authors had planted none of them.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.independence.verification import coupled_models as coupled
from tfdpnorm import independence
from tfdpnorm.independence.outputs import prove

WIDTH = 32
TOKENS, VOCABULARY = 10, 20_000
layers = keras.layers


class Fault(NamedTuple):
    """A fault.

    The verification stops at it, or the engine rejects it, unless it has become sound.

    Attributes:
        kind: The class that it belongs to.
        subject: "model", "loss" or "augmentation".
        make: Makes the Keras model, or is the loss or the augmentation.
        rows: Number of rows in a physical batch in which it acts.
        views: How many of them belong to one example.
        is_sound_now: Whether a gradient rule of later has made it right, so that it is verified.
    """

    kind: str
    subject: str
    make: Callable
    rows: int = 8
    views: int = 1
    is_sound_now: bool = False


def proved(fault):
    """What becomes of a fault: "stopped" by the proof, "refused" by the engine, or "PROVED"."""
    try:
        return "PROVED" if _proof(fault).holds else "stopped"
    except ValueError as error:
        if "rows for" not in str(error):
            raise
        return "refused"


def _proof(fault):
    examples = fault.rows // fault.views
    labels = tf.TensorSpec([examples], tf.int64)
    if fault.subject == "augmentation":
        return prove(fault.make, (tf.TensorSpec([fault.rows, 8, 8, 1]),), fault.rows)
    if fault.subject == "loss":
        model = keras.Sequential([keras.Input((coupled.FEATURES,)), layers.Dense(WIDTH)])
        loss = fault.make
    else:
        model, loss = fault.make(), "sparse_categorical_crossentropy"
    x = tf.TensorSpec([examples, *model.input_shape[1:]], model.inputs[0].dtype)

    def make_forward(x, mask):
        def forward(x):
            views = model(tf.repeat(x, fault.views, 0), training=True)
            return tf.reduce_mean(tf.reshape(views, [examples, fault.views, -1]), 1)

        return forward

    make_forward = make_forward if fault.views > 1 else None
    return independence.prove_training(
        model, loss, x, labels, make_forward=make_forward, rows_per_example=fault.views
    )


# Backward: the gradients of examples meet, their values do not. `coupled_models` has these.


# Sizes


def centred_from_8_rows(x):
    return tf.cond(tf.shape(x)[0] >= 8, lambda: x - tf.reduce_mean(x, 0), lambda: x)


def ghosts_of_32(x):
    """Batch normalisation in groups of 32 rows, where the batch is made of such."""
    if (x.shape[0] or 1) % 32:
        return x
    groups = tf.reshape(x, [-1, 32, x.shape[-1]])
    return tf.reshape(groups - tf.reduce_mean(groups, 1, keepdims=True), tf.shape(x))


def top_eighth_doubled(x):
    count = tf.shape(x)[0] // 8
    score = tf.reduce_sum(x, -1)
    least = tf.sort(score, direction="DESCENDING")[tf.maximum(count - 1, 0)]
    top = tf.logical_and(count > 0, score >= least)
    return x * tf.where(top, 2.0, 1.0)[:, tf.newaxis]


def every_eighth_row_centred(x):
    chosen = tf.cast(tf.range(tf.shape(x)[0]) % 8 == 0, x.dtype)[:, tf.newaxis]
    return x - chosen * tf.where(tf.shape(x)[0] > 8, tf.reduce_mean(x[::8], 0), 0.0)


def experts_with_room_for_some(x):
    expert = tf.one_hot(tf.argmax(x, -1), x.shape[-1])
    place = tf.reduce_sum(tf.cumsum(expert, 0) * expert, -1)
    room = tf.maximum(4, tf.shape(x)[0] // 2)
    return x * tf.cast(place <= tf.cast(room, x.dtype), x.dtype)[:, tf.newaxis]


# Equal labels or ids


def batch_all_triplets(y, predictions):
    distance = tf.reduce_sum((predictions[:, tf.newaxis] - predictions) ** 2, -1)
    same = tf.logical_and(y[:, tf.newaxis] == y, distance > 0)
    other = y[:, tf.newaxis] != y
    triplets = tf.logical_and(same[:, :, tf.newaxis], other[:, tf.newaxis])
    margins = tf.nn.relu(distance[:, :, tf.newaxis] - distance[:, tf.newaxis] + 1.0)
    return tf.reduce_sum(tf.where(triplets, margins, 0.0), [1, 2])


def divided_by_the_count_of_its_class(y, predictions):
    values = keras.losses.sparse_categorical_crossentropy(y, predictions, from_logits=True)
    counts = tf.reduce_sum(tf.one_hot(y, WIDTH), 0)
    return values / tf.gather(counts, y)


def distance_from_the_class_centre(y, predictions):
    centres = tf.math.unsorted_segment_mean(predictions, y, WIDTH)
    return tf.reduce_sum((predictions - tf.gather(centres, y)) ** 2, -1)


def on_tokens(function, trained=True):
    """A model of the embedded tokens, by a function (ids, vectors) -> [rows, features]."""
    ids = keras.Input((TOKENS,), dtype="int32")
    vectors = layers.Embedding(VOCABULARY, 4, trainable=trained)(ids)
    joined = coupled.Layer(lambda both: function(*both))([ids, vectors])
    return keras.Model(ids, layers.Dense(3)(joined))


def weighted_by_token_counts(ids, vectors):
    counts = tf.reduce_sum(tf.one_hot(ids, VOCABULARY), [0, 1])
    return tf.reduce_sum(vectors / tf.gather(counts, ids)[..., tf.newaxis], 1)


# Padding


def _longest(ids):
    return tf.reduce_max(tf.reduce_sum(tf.cast(ids > 0, tf.int32), 1))


def trimmed_to_the_longest(ids, vectors):
    return tf.reduce_mean(vectors[:, : _longest(ids)], 1)


def positions_from_the_longest(ids, vectors):
    place = tf.cast(_longest(ids) - tf.range(TOKENS), vectors.dtype)
    return tf.reduce_sum(vectors * tf.sin(place)[:, tf.newaxis], 1)


# Chance


def _mixed(x):
    return 0.7 * x + 0.3 * tf.reverse(x, [0])


def mixup_in_half_of_the_calls(x):
    return tf.cond(tf.random.uniform([]) > 0.5, lambda: _mixed(x), lambda: x)


def mixup_in_a_tenth_of_the_calls(x):
    return tf.cond(tf.random.uniform([]) > 0.9, lambda: _mixed(x), lambda: x)


class MixupLayer(layers.Layer):
    """Mixes in a tenth of the calls, by a generator of its own."""

    def build(self, shape):
        self.generator = tf.random.Generator.from_seed(3)

    def call(self, x, training=None):
        if not training:
            return x
        return tf.cond(self.generator.uniform([]) < 0.1, lambda: _mixed(x), lambda: x)


# State in Python or NumPy


class NumPyMean(layers.Layer):
    """Subtracts a running mean that is kept in an array."""

    def build(self, shape):
        self._mean = np.zeros(shape[-1], np.float32)

    def call(self, x):
        def centred(a):
            self._mean = 0.9 * self._mean + 0.1 * a.mean(0)
            return a - self._mean

        moved = tf.numpy_function(centred, [x], tf.float32) - x
        return x + tf.ensure_shape(tf.stop_gradient(moved), x.shape)


class PythonMemory(layers.Layer):
    """Adds the last row of the batch before, which a list remembers."""

    def build(self, shape):
        self._rows = [np.zeros(shape[-1], np.float32)]

    def call(self, x):
        def remembered(a):
            before, self._rows[0] = self._rows[0], a.numpy()[-1]
            return before

        added = tf.py_function(remembered, [tf.stop_gradient(x)], tf.float32)
        return x + tf.ensure_shape(added, x.shape[-1:])


# Trained layers whose rows are not the examples: they couple nothing in the model, but an engine
# that takes row i for example i clips the wrong rows. `coupled_models` has more of them.


class Around(layers.Layer):
    """A trained layer between two functions, of which the second undoes the first."""

    def __init__(self, trained, before, after):
        super().__init__()
        self.trained, self._before, self._after = trained, before, after

    def call(self, x):
        rows, undo = self._before(x)
        return self._after(self.trained(rows), undo)


def transposed_and_back():
    inputs = keras.Input((coupled.P, coupled.FEATURES))
    time_major = layers.Lambda(lambda t: tf.transpose(t, [1, 0, 2]))(inputs)
    hidden = layers.Dense(coupled.FEATURES, activation="relu")(time_major)
    back = layers.Lambda(lambda t: tf.transpose(t, [1, 0, 2]))(hidden)
    return keras.Model(inputs, layers.Dense(3)(layers.Flatten()(back)))


def sorted_and_put_back():
    def by_the_first(x):
        order = tf.argsort(x[:, 0])
        return tf.gather(x, order), tf.argsort(order)

    return coupled.around(Around(layers.Dense(coupled.FEATURES), by_the_first, tf.gather))


def pointwise_convolution_on_a_transpose():
    def rows_second(x):
        return tf.transpose(x, [1, 0, 2]), [1, 0, 2]

    inputs = keras.Input((coupled.P, coupled.FEATURES))
    hidden = Around(layers.Conv1D(coupled.FEATURES, 1), rows_second, tf.transpose)(inputs)
    return keras.Model(inputs, layers.Dense(3)(layers.Flatten()(hidden)))


class LearnedQueries(layers.Layer):
    """Attention from vectors that are trained, by way of a dense layer."""

    def __init__(self, count, width):
        super().__init__()
        self.project = layers.Dense(width)
        self._shape = (count, width)

    def build(self, shape):
        self.queries = self.add_weight(name="queries", shape=self._shape, trainable=False)
        super().build(shape)

    def call(self, x):
        return tf.matmul(self.project(self.queries), x, transpose_b=True)


def learned_queries():
    inputs = keras.Input((6, coupled.FEATURES))
    hidden = LearnedQueries(coupled.P, coupled.FEATURES)(inputs)
    return keras.Model(inputs, layers.Dense(3)(layers.Flatten()(hidden)))


def _coupled(name):
    return coupled.MODELS[name][0]


def _around(function):
    return lambda: coupled.around(function() if isinstance(function, type) else function)


FAULTS = {
    "gradient_clipped_as_one": Fault("backward", "model", _coupled("gradient_clipped_as_one")),
    "gradient_normalized": Fault("backward", "model", _coupled("gradient_normalized")),
    "gradient_quantized": Fault("backward", "model", _coupled("gradient_quantized")),
    "centred_from_8_rows": Fault("sizes", "model", _around(centred_from_8_rows)),
    "ghosts_of_32": Fault("sizes", "model", _around(ghosts_of_32), rows=64),
    "top_eighth_doubled": Fault("sizes", "model", _around(top_eighth_doubled), rows=16),
    "every_eighth_row": Fault("sizes", "model", _around(every_eighth_row_centred), rows=16),
    "expert_capacity": Fault("sizes", "model", _around(experts_with_room_for_some), rows=16),
    "batch_all_triplets": Fault("equal labels", "loss", batch_all_triplets),
    "class_centres": Fault("equal labels", "loss", distance_from_the_class_centre),
    "class_counts": Fault("equal labels", "loss", divided_by_the_count_of_its_class),
    "token_counts": Fault("equal ids", "model", lambda: on_tokens(weighted_by_token_counts)),
    "trimmed_to_the_longest": Fault("padding", "model", lambda: on_tokens(trimmed_to_the_longest)),
    "positions_from_the_longest": Fault(
        "padding", "model", lambda: on_tokens(positions_from_the_longest)
    ),
    "duplicates": Fault("duplicates", "model", _coupled("duplicates")),
    "missing_numbers": Fault("missing numbers", "model", _coupled("missing_numbers")),
    "a_counter": Fault("counters", "model", _coupled("a_counter")),
    "large_numbers": Fault("magnitudes", "model", _coupled("large_numbers")),
    "mixup_half": Fault("chance", "augmentation", mixup_in_half_of_the_calls),
    "mixup_tenth": Fault("chance", "augmentation", mixup_in_a_tenth_of_the_calls),
    "mixup_layer": Fault("chance", "model", _around(MixupLayer)),
    "numpy_mean": Fault("state outside of variables", "model", _around(NumPyMean)),
    "python_memory": Fault("state outside of variables", "model", _around(PythonMemory)),
    **{name: Fault("other rows", "model", make) for name, (make, *_) in coupled.OTHER_ROWS.items()},
    "pointwise_convolution_on_a_transpose": Fault(
        "other rows", "model", pointwise_convolution_on_a_transpose
    ),
    "transposed_and_back": Fault("other rows", "model", transposed_and_back),
    "learned_queries": Fault("other rows", "model", learned_queries),
    "sorted_and_put_back": Fault("other rows", "model", sorted_and_put_back),
    "position_embedding_of_two_views": Fault(
        "other rows",
        "model",
        coupled.position_embedding,
        rows=8,
        views=2,
        is_sound_now=True,
    ),
}
