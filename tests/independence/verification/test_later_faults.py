"""Faults that were thought of after the rules were written, and near them what is sound."""

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.independence.verification.coupled_models import FEATURES, P, around
from tfdpnorm.independence.book_keeping import prove_training
from tfdpnorm.keras_compat.variables import raw

LABELS = tf.TensorSpec([P], tf.int64)
X = tf.TensorSpec([P, FEATURES])
CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
layers = keras.layers


def whitened(x):
    covariance = tf.matmul(x, x, transpose_a=True) + tf.eye(FEATURES)
    return x @ tf.linalg.inv(covariance)


def sinkhorn(x):
    x = tf.exp(tf.tanh(x))
    for _ in range(2):
        x /= tf.reduce_sum(x, 1, keepdims=True)
        x /= tf.reduce_sum(x, 0, keepdims=True)
    return x


def halves_swapped(x):
    return tf.concat([x[P // 2 :], x[: P // 2]], 0)


def partitioned(x):
    parts = tf.dynamic_partition(x, tf.cast(x[:, 0] > 0, tf.int32), 2)
    return tf.ensure_shape(tf.concat(parts, 0), [P, FEATURES])


def written_back_to_front(x):
    array = tf.TensorArray(tf.float32, P, element_shape=[FEATURES])
    _, array = tf.while_loop(
        lambda i, _: i < P, lambda i, array: (i + 1, array.write(P - 1 - i, x[i])), [0, array]
    )
    return tf.ensure_shape(array.stack(), [P, FEATURES])


def until_all_are_small(x):
    return tf.while_loop(lambda y: tf.reduce_max(tf.abs(y)) > 1, lambda y: (y / 2,), [x], None, 1)[
        0
    ]


def until_each_is_small(x):
    """A number of turns of its own for each row: frozen rows only wait."""
    for _ in range(5):
        x = tf.where(tf.reduce_max(tf.abs(x), 1, keepdims=True) > 1, x / 2, x)
    return x


def best_tokens_of_the_batch(x):
    flat = tf.reshape(x, [-1])
    return x * tf.cast(x >= tf.math.top_k(flat, 3).values[-1], x.dtype)


def windows(x):
    return tf.reduce_mean(tf.signal.frame(tf.pad(x, [[0, 1], [0, 0]]), 2, 1, axis=0), 1)


def convolved(x):
    return tf.nn.conv1d(x[None], tf.ones([2, FEATURES, FEATURES]), 1, "SAME")[0]


def other_order(x):
    return tf.reshape(tf.transpose(x), [P, FEATURES])


def mean_in_a_vectorized_map(x):
    return tf.vectorized_map(lambda row: row - tf.reduce_mean(x, 0), x)


def drawn_by_its_values(x):
    return tf.random.gamma([], tf.exp(x))


def chosen_branch(x):
    index = tf.cast(tf.argmax(x[0]), tf.int32)
    return tf.switch_case(index, [lambda: x, lambda: -x, lambda: 2 * x, lambda: 3 * x])


def products_of_neighbours(x):
    return x * tf.gather(x, [(i + 1) % P for i in range(P)])


def through_sparse(x):
    sparse = tf.sparse.from_dense(x)
    return tf.ensure_shape(tf.sparse.to_dense(sparse) - tf.sparse.reduce_sum(sparse, 0), x.shape)


def lengths_in_common(x):
    lengths = tf.cast(tf.clip_by_value(tf.abs(x[:, 0]), 1, 3), tf.int32)
    mask = tf.sequence_mask(lengths, dtype=x.dtype)
    return x * tf.reduce_sum(mask, 1, keepdims=True) / tf.cast(tf.shape(mask)[1], x.dtype)


def lengths_of_their_own(x):
    lengths = tf.cast(tf.clip_by_value(tf.abs(x[:, 0]), 1, 3), tf.int32)
    return x * tf.sequence_mask(lengths, FEATURES, dtype=x.dtype)


def pseudo_labels(x):
    table = tf.math.unsorted_segment_mean(x, tf.argmax(x, -1), FEATURES)
    return x - tf.gather(table, tf.argmax(x, -1))


def learned_memory(x):
    memory = tf.reshape(tf.range(12.0), [3, FEATURES])
    return tf.nn.softmax(x @ tf.transpose(memory)) @ memory


def weights_by_position(x):
    """A number for each position of the batch, that everybody knows."""
    return x * tf.random.stateless_uniform([P, 1], [1, 2])


def weights_by_chance(x):
    """A number for each example, that nobody knows."""
    return x * tf.random.uniform([P, 1])


def divided_by_their_number(x):
    return x / tf.cast(tf.shape(x)[0], x.dtype)


def instance_normalized(x):
    mean, variance = tf.nn.moments(x, [1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-3)


def own_spectrum(x):
    return tf.abs(tf.signal.fft(tf.cast(x, tf.complex64)))


class Bank(layers.Layer):
    """Keeps a vector of each class."""

    def build(self, shape):
        self.bank = self.add_weight(name="bank", shape=[FEATURES, FEATURES], trainable=False)

    def call(self, x):
        outputs = x + tf.gather(self.bank, tf.argmax(x, -1))
        raw(self.bank).scatter_nd_update(tf.argmax(x, -1)[:, None], x)
        return outputs


class Tracker(layers.Layer):
    """Keeps the largest number that it saw, in its backward pass."""

    def build(self, shape):
        self.largest = self.add_weight(name="largest", shape=(), trainable=False)

    def call(self, x):
        largest = self.largest

        @tf.custom_gradient
        def watched(x):
            def backward(dy):
                largest.assign(tf.maximum(largest, tf.reduce_max(dy)))
                return dy

            return tf.identity(x), backward

        return watched(x)


class Renormalized(layers.Layer):
    """Batch renormalisation in half of the calls, by a generator of its own."""

    def build(self, shape):
        self.generator = tf.random.Generator.from_seed(1)

    def call(self, x):
        return tf.cond(
            self.generator.uniform([]) < 0.5, lambda: x, lambda: x - tf.reduce_mean(x, 0)
        )


FAULTS = {
    "whitening": whitened,
    "sinkhorn": sinkhorn,
    "halves_swapped": halves_swapped,
    "partitioned": partitioned,
    "written_back_to_front": written_back_to_front,
    "until_all_are_small": until_all_are_small,
    "best_tokens_of_the_batch": best_tokens_of_the_batch,
    "windows": windows,
    "convolved": convolved,
    "other_order": other_order,
    "mean_in_a_vectorized_map": mean_in_a_vectorized_map,
    "drawn_by_its_values": drawn_by_its_values,
    "chosen_branch": chosen_branch,
    "products_of_neighbours": products_of_neighbours,
    "through_sparse": through_sparse,
    "lengths_in_common": lengths_in_common,
    "pseudo_labels": pseudo_labels,
    "clipped_as_one": lambda x: tf.clip_by_norm(x, 1.0),
    "moments": lambda x: tf.nn.batch_normalization(x, *tf.nn.moments(x, [0]), None, None, 1e-3),
    "bank": Bank,
    "tracker": Tracker,
    "renormalized_by_chance": Renormalized,
}
SOUND = {
    "weights_by_position": weights_by_position,
    "until_each_is_small": until_each_is_small,
    "lengths_of_their_own": lengths_of_their_own,
    "learned_memory": learned_memory,
    "weights_by_chance": weights_by_chance,
    "divided_by_their_number": divided_by_their_number,
    "instance_normalization": instance_normalized,
    "own_spectrum": own_spectrum,
    "channel_shuffle": lambda x: tf.reshape(
        tf.transpose(tf.reshape(x, [P, 2, FEATURES // 2]), [0, 2, 1]), [P, FEATURES]
    ),
    "squeeze_and_excite": lambda x: x * tf.sigmoid(tf.reduce_mean(x, 1, keepdims=True)),
    "own_gram": lambda x: tf.reduce_sum(x[:, None] * x[:, :, None], 1),
    "standardized": lambda x: tf.image.per_image_standardization(x[..., None, None])[..., 0, 0],
    "stacked_and_back": lambda x: tf.transpose(tf.stack(tf.unstack(x, axis=1))),
}


def proof_of(middle, loss=CROSS_ENTROPY):
    middle = middle() if isinstance(middle, type) else middle
    return prove_training(around(middle), loss, X, LABELS)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_not_verified(name):
    proof = proof_of(FAULTS[name])
    assert not proof.holds
    assert proof.culprit.why in proof.obstacle


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_sound_models_are_verified(name):
    proof = proof_of(SOUND[name])
    assert proof.holds, proof.obstacle


def dice(y, predictions):
    probabilities = tf.nn.softmax(predictions)[:, 0]
    truth = tf.cast(y == 0, tf.float32)
    return 1 - 2 * probabilities * truth / (tf.reduce_sum(probabilities) + tf.reduce_sum(truth))


def ranked(y, predictions):
    order = tf.argsort(predictions[:, 0])
    return tf.gather(predictions[:, 0], order) * tf.cast(y, tf.float32)


def centred(y, predictions):
    values = keras.losses.sparse_categorical_crossentropy(y, predictions, from_logits=True)
    return values - tf.reduce_mean(values)


def pairs(y, predictions):
    later = predictions[1:] - predictions[:-1]
    return tf.reduce_sum(tf.concat([later, later[:1]], 0), -1)


def correlation(y, predictions):
    a = predictions[:, 0]
    b = tf.cast(y, a.dtype)
    return a * b / tf.norm(a)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [dice, ranked, centred, pairs, correlation])
def test_a_fault_in_the_loss_is_not_verified(loss):
    proof = proof_of(lambda x: x, loss)
    assert proof.failed[0].what == "the losses"


def test_a_gradient_through_the_example_count_is_not_verified():
    """The engine's mask is one of the rows: whoever divides by its sum couples them."""

    def make_forward(x, mask):
        return lambda x: model(x, training=True) / tf.reduce_sum(mask)

    model = around(lambda x: x)
    proof = prove_training(model, CROSS_ENTROPY, X, LABELS, make_forward=make_forward)
    assert proof.culprit.op_type == "Sum"
