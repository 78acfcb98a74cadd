"""Text classification with a transformer block, after Keras' example of that name.

The embedding of positions is where the axis of the steps can pass for that of the examples.
"""

import tensorflow as tf
from tensorflow import keras

from tests.keras_examples.case import CLASSES, WORDS, P

layers = keras.layers


class TokenAndPositionEmbedding(layers.Layer):
    """Adds what stands at a step and which step it is: [T, D] and [rows, T, D]."""

    def __init__(self, steps, words, width, **options):
        super().__init__(**options)
        self.tokens = layers.Embedding(words, width)
        self.positions = layers.Embedding(steps, width)

    def call(self, x):
        last = tf.shape(x)[-1]
        places = tf.range(start=0, limit=last, delta=1)
        return self.tokens(x) + self.positions(places)


class TransformerBlock(layers.Layer):
    """Attention and two dense layers, each with a shortcut and layer normalisation behind."""

    def __init__(self, width, heads, hidden, rate=0.1, causal=False, **options):
        super().__init__(**options)
        self.causal = causal
        self.attention = layers.MultiHeadAttention(heads, width // heads)
        self.dense = keras.Sequential([layers.Dense(hidden, "relu"), layers.Dense(width)])
        self.norms = [layers.LayerNormalization(epsilon=1e-6) for _ in range(2)]
        self.dropouts = [layers.Dropout(rate) for _ in range(2)]

    def call(self, x, training=None):
        attended = self.attention(x, x, use_causal_mask=self.causal)
        x = self.norms[0](x + self.dropouts[0](attended, training=training))
        return self.norms[1](x + self.dropouts[1](self.dense(x), training=training))


def text_transformer(rate=0.1):
    """Ids [rows, P] to logits [rows, 3]."""
    inputs = keras.Input((P,), dtype="int32")
    x = TokenAndPositionEmbedding(P, WORDS, 4)(inputs)
    x = TransformerBlock(4, 2, 6, rate)(x)
    x = layers.Dropout(rate)(layers.GlobalAveragePooling1D()(x))
    x = layers.Dropout(rate)(layers.Dense(5, "relu")(x))
    return keras.Model(inputs, layers.Dense(CLASSES)(x))
