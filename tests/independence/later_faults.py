"""Faults that were thought of after the verification was written."""

import tensorflow as tf
from tensorflow import keras

from tests.independence.faults_of_others import Fault, on_tokens
from tests.independence.verification.coupled_models import FEATURES, Layer, around

layers = keras.layers


def gram_of_the_batch(x):
    gram = tf.einsum("bf,bg->fg", x, x)
    return tf.einsum("bf,fg->bg", x, gram)


def pairs_share_a_mean(x):
    pair = tf.range(tf.shape(x)[0]) // 2
    return x - tf.gather(tf.math.segment_mean(x, pair), pair)


def numbered_by_first_appearance(ids, vectors):
    """Ids count as the how-many-th new word of the batch they are."""
    numbers = tf.reshape(tf.unique(tf.reshape(ids, [-1])).idx, tf.shape(ids))
    return tf.reduce_sum(vectors * tf.sin(tf.cast(numbers, vectors.dtype))[..., tf.newaxis], 1)


def slots_overwritten(x):
    """Each row writes itself into the slot of its largest feature, and reads what is there."""
    slot = tf.argmax(x, -1)
    slots = tf.tensor_scatter_nd_update(tf.zeros([FEATURES, FEATURES]), slot[:, tf.newaxis], x)
    return x + tf.gather(slots, slot)


def columns_reversed(x):
    lengths = tf.fill([FEATURES], tf.shape(x)[0])
    return tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1)


def average_that_is_carried_on(x):
    return x - tf.scan(lambda carried, row: 0.9 * carried + 0.1 * row, x)


def four_rows_in_one_picture(x):
    pictures = tf.batch_to_space(tf.reshape(x, [-1, 2, 2, 1]), [2, 2], [[0, 0], [0, 0]])
    smooth = tf.nn.avg_pool2d(pictures, 3, 1, "SAME")
    return tf.reshape(tf.space_to_batch(smooth, [2, 2], [[0, 0], [0, 0]]), [-1, FEATURES])


def competition_of_the_rows(x):
    return x * tf.nn.softmax(x, axis=0)


def unit_normalization_over_rows():
    return layers.UnitNormalization(axis=0)


class SeenBefore(layers.Layer):
    """Counts in a table how often each kind of row came."""

    def build(self, shape):
        self._table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)

    def call(self, x):
        kind = tf.argmax(x, -1)
        seen = tf.ensure_shape(self._table.lookup(kind), x.shape[:1])
        self._table.insert(kind, seen + 1)
        return x / (1 + seen)[:, tf.newaxis]


def noise_as_large_as_the_spread(x):
    return x + 0.1 * tf.math.reduce_std(x, 0) * tf.random.normal(tf.shape(x))


class RecurrenceOverRows(layers.Layer):
    """A recurrent layer for which the batch is one sequence."""

    def __init__(self):
        super().__init__()
        self.recurrent = layers.SimpleRNN(FEATURES, return_sequences=True)

    def call(self, x):
        return self.recurrent(x[tf.newaxis])[0]


class FirstRowKept(layers.Layer):
    """Takes all rows relative to the first that it ever saw."""

    def build(self, shape):
        self.kept = self.add_weight(name="kept", shape=shape[-1:], trainable=False)
        self.unset = self.add_weight(name="unset", initializer="ones", trainable=False)

    def call(self, x):
        self.kept.assign(tf.where(self.unset > 0, x[0], self.kept))
        self.unset.assign(0.0)
        return x - self.kept


def gradient_of_an_energy(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        energy = tf.reduce_sum(x) ** 2
    return x - 0.01 * tape.gradient(energy, x)


def histogram_equalized(x):
    counts = tf.cast(tf.histogram_fixed_width(x, [-3.0, 3.0], 16), x.dtype)
    return x * tf.gather(tf.cumsum(counts), tf.histogram_fixed_width_bins(x, [-3.0, 3.0], 16))


@tf.custom_gradient
def gradient_dropped_if_any_overflows(x):
    def backward(dy):
        return tf.where(tf.reduce_all(tf.math.is_finite(dy)), dy, tf.zeros_like(dy))

    return tf.identity(x), backward


@tf.custom_gradient
def gradient_centred_by_chance(x):
    def backward(dy):
        return tf.where(tf.random.uniform([]) > 0.9, dy - tf.reduce_mean(dy, 0), dy)

    return tf.identity(x), backward


def rows_of_one_bucket_averaged(x):
    """Hashes by the signs of the features."""
    same = tf.reduce_all(tf.sign(x)[:, tf.newaxis] == tf.sign(x), -1)
    share = tf.cast(same, x.dtype)
    return tf.matmul(share, x) / tf.reduce_sum(share, 1, keepdims=True)


def cut_again_by_lengths(x):
    """A row gives its neighbour what is left of its place."""
    lengths = tf.where(x[:, 0] > 0, FEATURES, FEATURES - 1)
    kept = tf.RaggedTensor.from_row_lengths(tf.reshape(x, [-1])[: tf.reduce_sum(lengths)], lengths)
    return kept.to_tensor(shape=[None, FEATURES])


def boxes_that_better_ones_suppress(x):
    boxes = tf.concat([tf.minimum(x[:, :2], x[:, 2:]), tf.maximum(x[:, :2], x[:, 2:])], 1)
    best = tf.image.non_max_suppression(boxes, x[:, 0], tf.shape(x)[0], iou_threshold=0.1)
    chosen = tf.scatter_nd(best[:, tf.newaxis], tf.ones_like(best), tf.shape(x)[:1])
    return x * tf.cast(chosen, x.dtype)[:, tf.newaxis]


_RUNNING = []


def divided_by_a_running_mean(y, predictions):
    """A loss that keeps a mean of its values in a variable."""
    if not _RUNNING:
        with tf.init_scope():
            _RUNNING.append(tf.Variable(1.0, trainable=False, name="mean_loss"))
    (mean,) = _RUNNING
    values = keras.losses.sparse_categorical_crossentropy(y, predictions, from_logits=True)
    mean.assign(0.99 * mean + 0.01 * tf.reduce_mean(values))
    return values / tf.stop_gradient(mean)


def shared_among_valid_labels(y, predictions):
    """Label 0 is to be ignored."""
    values = keras.losses.sparse_categorical_crossentropy(y, predictions, from_logits=True)
    valid = tf.cast(y != 0, values.dtype)
    return values * valid / tf.maximum(tf.reduce_mean(valid), 1e-3)


def _in_a_model(kind, make):
    def made():
        middle = make() if isinstance(make, type) or make in _MAKERS else make
        return around(middle if isinstance(middle, layers.Layer) else Layer(middle))

    return Fault(kind, "model", made)


_MAKERS = (unit_normalization_over_rows,)

LATER = {
    "gram_of_the_batch": _in_a_model("products", gram_of_the_batch),
    "pairs_share_a_mean": _in_a_model("segments", pairs_share_a_mean),
    "numbered_by_first_appearance": Fault(
        "order",
        "model",
        lambda: on_tokens(numbered_by_first_appearance),
    ),
    "slots_overwritten": _in_a_model("scatter", slots_overwritten),
    "columns_reversed": _in_a_model("order", columns_reversed),
    "average_that_is_carried_on": _in_a_model("loops", average_that_is_carried_on),
    "four_rows_in_one_picture": _in_a_model("reshaping", four_rows_in_one_picture),
    "competition_of_the_rows": _in_a_model("wrong axis", competition_of_the_rows),
    "unit_normalization_over_rows": _in_a_model("wrong axis", unit_normalization_over_rows),
    "seen_before": _in_a_model("tables", SeenBefore),
    "noise_as_large_as_the_spread": _in_a_model("chance", noise_as_large_as_the_spread),
    "recurrence_over_rows": _in_a_model("wrong axis", RecurrenceOverRows),
    "first_row_kept": _in_a_model("state", FirstRowKept),
    "gradient_of_an_energy": _in_a_model("inner gradients", gradient_of_an_energy),
    "histogram_equalized": _in_a_model("counts", histogram_equalized),
    "gradient_dropped_if_any_overflows": _in_a_model("backward", gradient_dropped_if_any_overflows),
    "gradient_centred_by_chance": _in_a_model("backward", gradient_centred_by_chance),
    "rows_of_one_bucket_averaged": _in_a_model("hashing", rows_of_one_bucket_averaged),
    "cut_again_by_lengths": _in_a_model("ragged", cut_again_by_lengths),
    "boxes_that_better_ones_suppress": _in_a_model("selection", boxes_that_better_ones_suppress),
    "divided_by_a_running_mean": Fault("state", "loss", divided_by_a_running_mean),
    "shared_among_valid_labels": Fault("counts", "loss", shared_among_valid_labels),
}
