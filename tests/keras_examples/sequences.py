"""Networks for texts, sounds and other sequences that users bring; P steps for P examples."""

import tensorflow as tf
from tensorflow import keras

from tests.keras_examples.case import CLASSES, WORDS, Case, P, ids, spec

layers = keras.layers
WIDTH = 4


def recurrent(kind):
    """Two recurrent layers behind an embedding with a mask."""
    inputs = keras.Input((P,), dtype="int32")
    x = layers.Embedding(WORDS, WIDTH, mask_zero=True)(inputs)
    x = kind(3)(kind(WIDTH, return_sequences=True)(x))
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


def both_directions():
    inputs = keras.Input((P, 3))
    x = layers.TimeDistributed(layers.Dense(WIDTH, "relu"))(inputs)
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(x)
    x = layers.TimeDistributed(layers.Dense(2))(x)
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.Flatten()(x)))


def cells():
    inputs = keras.Input((P, 3))
    x = layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)])(inputs)
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


def translation():
    """A decoder that looks at the encoder's steps, with masks from padding."""
    source, target = keras.Input((P,), dtype="int32"), keras.Input((P,), dtype="int32")
    embed = [layers.Embedding(WORDS, WIDTH, mask_zero=True) for _ in range(2)]
    encoder = layers.LSTM(WIDTH, return_sequences=True, return_state=True)
    steps, *states = encoder(embed[0](source))
    decoded = layers.LSTM(WIDTH, return_sequences=True)(embed[1](target), initial_state=states)
    x = layers.Concatenate()([decoded, layers.Attention()([decoded, steps])])
    return keras.Model([source, target], layers.TimeDistributed(layers.Dense(WORDS))(x))


def given_mask():
    """Which steps count is an input of its own."""
    tokens, mask = keras.Input((P,), dtype="int32"), keras.Input((P,), dtype="int32")
    x = layers.Embedding(WORDS, WIDTH)(tokens)
    x = layers.MultiHeadAttention(2, 2)(x, x, attention_mask=(mask > 0)[:, tf.newaxis])
    return keras.Model([tokens, mask], layers.Dense(CLASSES)(x[:, 0]))


def text_cnn():
    inputs = keras.Input((P,), dtype="int32")
    x = layers.Embedding(WORDS, WIDTH)(inputs)
    found = [layers.Conv1D(3, k, activation="relu")(x) for k in (2, 3, 4)]
    x = layers.Concatenate()([layers.GlobalMaxPooling1D()(y) for y in found])
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.Dropout(0.5)(x)))


def k_largest():
    """The three largest numbers of each channel."""
    inputs = keras.Input((P,), dtype="int32")
    x = layers.Conv1D(WIDTH, 2)(layers.Embedding(WORDS, WIDTH)(inputs))
    largest = tf.math.top_k(tf.transpose(x, [0, 2, 1]), 3).values
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.Flatten()(largest)))


def conformer():
    def half_step(x):
        y = layers.Dense(6, "swish")(layers.LayerNormalization()(x))
        return x + 0.5 * layers.Dropout(0.1)(layers.Dense(WIDTH)(y))

    inputs = keras.Input((P, WIDTH))
    x = half_step(inputs)
    y = layers.LayerNormalization()(x)
    x += layers.MultiHeadAttention(2, 2, dropout=0.1)(y, y)
    y, gate = tf.split(layers.Dense(2 * WIDTH)(layers.LayerNormalization()(x)), 2, -1)
    y = layers.DepthwiseConv1D(3, padding="same")(y * tf.sigmoid(gate))
    x += layers.Dense(WIDTH)(tf.nn.swish(layers.GroupNormalization(2)(y)))
    x = layers.LayerNormalization()(half_step(x))
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x)))


def wavenet():
    def gated(x, dilation):
        options = {"padding": "causal", "dilation_rate": dilation}
        content = layers.Conv1D(WIDTH, 2, activation="tanh", **options)(x)
        return content * layers.Conv1D(WIDTH, 2, activation="sigmoid", **options)(x)

    inputs = keras.Input((4 * P, 2))
    x, found = layers.Conv1D(WIDTH, 2, padding="causal")(inputs), 0.0
    for dilation in (1, 2, 4):
        y = gated(x, dilation)
        x, found = x + layers.Conv1D(WIDTH, 1)(y), found + layers.Conv1D(WIDTH, 1)(y)
    x = layers.GlobalAveragePooling1D()(tf.nn.relu(found))
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


def spectrogram():
    inputs = keras.Input((64,))
    loudness = tf.abs(tf.signal.stft(inputs, 16, 8))
    mel = tf.tensordot(loudness, tf.signal.linear_to_mel_weight_matrix(6, 9, 16_000), 1)
    x = layers.Conv2D(3, 3)(tf.math.log(mel + 1e-6)[..., tf.newaxis])
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.Flatten()(x)))


def last_step():
    """The step that the length of each example says, taken from all steps."""
    x, length = keras.Input((P, 3)), keras.Input((), dtype="int32")
    steps = layers.GRU(WIDTH, return_sequences=True)(x)
    last = tf.gather(steps, tf.clip_by_value(length - 1, 0, P - 1), batch_dims=1)
    return keras.Model([x, length], layers.Dense(CLASSES)(last))


def last_step_without_a_bound():
    x, length = keras.Input((P, 3)), keras.Input((), dtype="int32")
    steps = layers.GRU(WIDTH, return_sequences=True)(x)
    return keras.Model([x, length], layers.Dense(CLASSES)(tf.gather(steps, length, batch_dims=1)))


def words_in():
    """Texts as strings, which are split into words."""
    inputs = keras.Input((1,), dtype="string")
    split = layers.TextVectorization(output_sequence_length=P, vocabulary=["a", "b"])
    x = layers.Embedding(5, 3)(split(inputs))
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.Flatten()(x)))


_TOKENS = ids(P)
SEQUENCES = {
    "lstm": Case(lambda: recurrent(layers.LSTM), _TOKENS, ids()),
    "gru": Case(lambda: recurrent(layers.GRU), _TOKENS, ids()),
    "time_distributed_bidirectional": Case(both_directions, spec(P, 3), ids()),
    "stacked_cells": Case(cells, spec(P, 3), ids()),
    "translation": Case(translation, (_TOKENS, _TOKENS), _TOKENS, most=WORDS),
    "attention_with_given_mask": Case(given_mask, (_TOKENS, _TOKENS), ids()),
    "text_cnn": Case(text_cnn, _TOKENS, ids()),
    "k_max_pooling": Case(k_largest, _TOKENS, ids()),
    "conformer": Case(conformer, spec(P, WIDTH), ids()),
    "wavenet": Case(wavenet, spec(4 * P, 2), ids()),
    "spectrogram": Case(spectrogram, spec(64), ids()),
    "last_step": Case(last_step, (spec(P, 3), ids()), ids()),
}
# By name: the case, and words of what stops its proof.
SEQUENCES_REFUSED = {
    "last_step_without_a_bound": (
        Case(last_step_without_a_bound, (spec(P, 3), ids()), ids()),
        "UnsortedSegmentSum",
    ),
    "words_in": (Case(words_in, spec(1, dtype=tf.string), ids()), "StringSplitV2"),
}
