"""Image classification with a vision transformer, after Keras' example of that name."""

import tensorflow as tf
from tensorflow import keras

from tests.keras_examples.case import CLASSES, P

layers = keras.layers
WIDTH = 4


class Patches(layers.Layer):
    """Images [rows, H, W, C] to patches [rows, count, size * size * C] that do not overlap."""

    def __init__(self, size, **options):
        super().__init__(**options)
        self.size = size

    def call(self, images):
        rows = tf.shape(images)[0]
        window = [1, self.size, self.size, 1]
        patches = tf.image.extract_patches(images, window, window, [1, 1, 1, 1], "VALID")
        return tf.reshape(patches, [rows, -1, patches.shape[-1]])


class PatchEncoder(layers.Layer):
    """Projects each patch, and adds which one it is."""

    def __init__(self, count, width, **options):
        super().__init__(**options)
        self.count = count
        self.projection = layers.Dense(width)
        self.positions = layers.Embedding(count, width)

    def call(self, patches):
        places = tf.range(start=0, limit=self.count, delta=1)
        return self.projection(patches) + self.positions(places)


def _dense(x, sizes, rate):
    for size in sizes:
        x = layers.Dropout(rate)(layers.Dense(size, activation=tf.nn.gelu)(x))
    return x


def vision_transformer(rate=0.1, blocks=1):
    """Images [rows, 8, 4, 1] in P patches of 2 x 2, to logits [rows, 3]."""
    inputs = keras.Input((8, P // 2, 1))
    x = PatchEncoder(P, WIDTH)(Patches(2)(inputs))
    for _ in range(blocks):
        before = layers.LayerNormalization(epsilon=1e-6)(x)
        attended = layers.MultiHeadAttention(2, WIDTH, dropout=rate)(before, before)
        x = layers.Add()([attended, x])
        dense = _dense(layers.LayerNormalization(epsilon=1e-6)(x), [2 * WIDTH, WIDTH], rate)
        x = layers.Add()([dense, x])
    x = layers.Flatten()(layers.LayerNormalization(epsilon=1e-6)(x))
    features = _dense(layers.Dropout(rate)(x), [6], rate)
    return keras.Model(inputs, layers.Dense(CLASSES)(features))
