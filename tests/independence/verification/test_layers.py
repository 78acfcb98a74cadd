"""Models of stock Keras layers are proved in training; each alone is in tests/keras_conformance."""

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.independence.planted_faults import specs_of
from tests.independence.sound_models import SOUND
from tfdpnorm.independence.book_keeping import prove_training

P = 4  # also a size of other axes, on purpose
layers = keras.layers


def spec(*shape, dtype=tf.float32):
    return tf.TensorSpec([P, *shape], dtype)


def proof_of(model, x, loss="sparse_categorical_crossentropy", y=None):
    return prove_training(model, loss, x, spec(dtype=tf.int64) if y is None else y)


def tokens():
    """Ids and an attention over them, with a mask from padding."""
    inputs = keras.Input((6,), dtype="int32")
    x = layers.Embedding(50, 8, mask_zero=True)(inputs)
    x = layers.MultiHeadAttention(2, 4, dropout=0.1)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(x)
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))


def keras_attention(kind, **options):
    inputs = keras.Input((6,), dtype="int32")
    x = layers.Embedding(50, 8, mask_zero=True)(inputs)
    x = kind(**options)([x, x])
    return keras.Model(inputs, layers.Dense(3)(layers.Flatten()(x)))


def long_sequence():
    """More steps than are unrolled: a loop, forwards and backwards."""
    inputs = keras.Input((140, 2))
    x = layers.LSTM(3, return_sequences=True)(inputs)
    return keras.Model(inputs, layers.Dense(3)(layers.GRU(2)(x)))


def frozen_lstm():
    """Without a rule of ours: Keras' own loop."""
    inputs = keras.Input((6, 2))
    x = layers.LSTM(3, trainable=False)(layers.Dense(2)(inputs))
    return keras.Model(inputs, layers.Dense(3)(x))


def siamese():
    """One layer, called twice."""
    inputs = [keras.Input((4,)), keras.Input((4,))]
    shared = layers.Dense(5)
    x = layers.Lambda(tf.abs)(shared(inputs[0]) - shared(inputs[1]))
    return keras.Model(inputs, layers.Dense(3)(x))


def convolutions_over_time():
    inputs = keras.Input((3, 6, 6, 1))
    x = layers.TimeDistributed(layers.Conv2D(2, 3, activation="relu"))(inputs)
    x = layers.TimeDistributed(layers.Flatten())(x)
    return keras.Model(inputs, layers.Dense(3)(layers.LSTM(4)(x)))


MODELS = {
    "tokens": (tokens, spec(6, dtype=tf.int32)),
    "attention": (lambda: keras_attention(layers.Attention), spec(6, dtype=tf.int32)),
    "attention_scaled": (
        lambda: keras_attention(layers.Attention, use_scale=True, score_mode="concat"),
        spec(6, dtype=tf.int32),
    ),
    "attention_additive": (
        lambda: keras_attention(layers.AdditiveAttention),
        spec(6, dtype=tf.int32),
    ),
    "long_sequence": (long_sequence, spec(140, 2)),
    "frozen_lstm": (frozen_lstm, spec(6, 2)),
    "siamese": (siamese, [spec(4), spec(4)]),
    "convolutions_over_time": (convolutions_over_time, spec(3, 6, 6, 1)),
}


@pytest.mark.slow
@each("name", MODELS)
def test_a_model_of_stock_layers_is_verified(name):
    make, x = MODELS[name]
    proof = proof_of(make(), x)
    assert proof.holds, proof.obstacle


@each("name", ["hinge", "squared_hinge"])
def test_hinge_losses_are_not_verified_as_one_label_changes_all(name):
    """Keras takes all labels for 0 and 1 if all of the batch are, and for -1 and 1 else."""
    model = keras.Sequential([keras.Input((5,)), layers.Dense(1)])
    proof = proof_of(model, spec(5), name, spec(1))
    assert not proof.holds
    assert proof.culprit.op_type == "All"
    value = keras.losses.get(name)
    alone = value(tf.constant([[0.0], [1.0]]), tf.constant([[0.5], [0.5]]))
    beside = value(tf.constant([[0.0], [-1.0]]), tf.constant([[0.5], [0.5]]))
    assert alone[0] != beside[0]


DRAWN_FOR_A_BATCH = {
    "layer": lambda: layers.RandomContrast(0.2),
    "number": lambda: layers.Lambda(lambda x: x * tf.random.uniform([])),
    "row": lambda: layers.Lambda(lambda x: x + tf.random.normal([4, 4, 3])),
}


@each("name", DRAWN_FOR_A_BATCH)
def test_layers_drawing_for_a_whole_batch_are_verified(name):
    """Positions are drawn across all physical batches, so that none of them tells an example."""
    behind = [layers.Flatten(), layers.Dense(3)]
    model = keras.Sequential([keras.Input((4, 4, 3)), DRAWN_FOR_A_BATCH[name](), *behind])
    proof = proof_of(model, spec(4, 4, 3))
    assert proof.holds, proof.obstacle


# Not proved: words of different numbers make ragged tensors. The last is refused by the engine.
BEYOND = ("public_words",)
REFUSED = ("kernel_that_calls_normalise",)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(SOUND) - set(REFUSED)))
@pytest.mark.filterwarnings("ignore:There is no gradient rule")
def test_the_sound_models(name):
    model = SOUND[name]()

    def full(given):
        return spec(*(6 if n is None else n for n in given.shape[1:]), dtype=given.dtype)

    def loss(y, predictions):
        parts = [tf.cast(p, tf.float32) for p in tf.nest.flatten(predictions)]
        return tf.add_n([tf.reduce_sum(tf.reshape(p, [P, -1]), 1) for p in parts])

    proof = proof_of(model, tf.nest.map_structure(full, specs_of(model)), loss)
    assert proof.holds == (name not in BEYOND), proof.obstacle
