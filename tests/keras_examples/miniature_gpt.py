"""Text generation with one causal transformer block, after Keras' example of a miniature GPT.

Unlike the example's, the model has the logits as its only output: the second one there is for
sampling, and is not trained.
"""

import tensorflow as tf
from tensorflow import keras

from tests.keras_examples.case import WORDS, P
from tests.keras_examples.text_transformer import TokenAndPositionEmbedding

layers = keras.layers


def causal_mask(rows, targets, sources):
    """[rows, targets, sources], true where a step may look: at itself and at those before."""
    i, j = tf.range(targets)[:, None], tf.range(sources)
    mask = tf.reshape(i >= j - sources + targets, [1, targets, sources])
    times = tf.concat([tf.expand_dims(rows, -1), tf.constant([1, 1], tf.int32)], 0)
    return tf.tile(mask, times)


class CausalBlock(layers.Layer):
    """A transformer block whose mask is computed from the shape of what it gets."""

    def __init__(self, width, heads, hidden, rate=0.1, **options):
        super().__init__(**options)
        self.attention = layers.MultiHeadAttention(heads, width)
        self.dense = keras.Sequential([layers.Dense(hidden, "relu"), layers.Dense(width)])
        self.norms = [layers.LayerNormalization(epsilon=1e-6) for _ in range(2)]
        self.dropouts = [layers.Dropout(rate) for _ in range(2)]

    def call(self, x):
        shape = tf.shape(x)
        mask = causal_mask(shape[0], shape[1], shape[1])
        x = self.norms[0](x + self.dropouts[0](self.attention(x, x, attention_mask=mask)))
        return self.norms[1](x + self.dropouts[1](self.dense(x)))


def miniature_gpt(rate=0.1):
    """Ids [rows, P] to logits [rows, P, words] of the next."""
    inputs = keras.Input((P,), dtype="int32")
    x = TokenAndPositionEmbedding(P, WORDS, 4)(inputs)
    x = CausalBlock(4, 2, 6, rate)(x)
    return keras.Model(inputs, layers.Dense(WORDS)(x))
