"""Transformers of the conformance table, as users write them: functions that give (model, x, y)."""

import tensorflow as tf
from tensorflow import keras

from tests.keras_conformance.models import ROWS, rng, rows
from tests.keras_examples.case import CLASSES, WORDS, P
from tests.keras_examples.examples import without_dropout
from tests.keras_examples.text_transformer import TokenAndPositionEmbedding, TransformerBlock
from tests.keras_examples.vision_transformer import Patches

L = keras.layers
WIDTH = 4


def example(name):
    """One of Keras' public examples, without dropout."""
    case = without_dropout(name)
    return case.build(), *case.rows(ROWS)


class PatchEncoder(L.Layer):
    """Projects each patch, and adds which one it is: positions are [1, P]."""

    def __init__(self, count, **options):
        super().__init__(**options)
        self.count = count
        self.projection, self.positions = L.Dense(WIDTH), L.Embedding(count, WIDTH)

    def call(self, patches):
        places = tf.expand_dims(tf.range(start=0, limit=self.count, delta=1), 0)
        return self.projection(patches) + self.positions(places)


class VisionTransformer(keras.Model):
    """Owns its class token and the positions of that and of the patches."""

    def __init__(self):
        super().__init__()
        self.patches, self.encoder = Patches(2), PatchEncoder(P)
        self.block, self.norm = TransformerBlock(WIDTH, 2, 6, 0.0), L.LayerNormalization()
        self.head = L.Dense(CLASSES)

    def build(self, shape):
        self.token = self.add_weight(name="token", shape=(1, 1, WIDTH), initializer="random_normal")
        self.places = self.add_weight(
            name="places", shape=(1, P + 1, WIDTH), initializer="random_normal"
        )
        super().build(shape)

    def call(self, images):
        x = self.encoder(self.patches(images))
        token = tf.broadcast_to(self.token, [tf.shape(x)[0], 1, WIDTH])
        x = self.block(tf.concat([token, x], 1) + self.places)
        return self.head(self.norm(x)[:, 0])


def vision_transformer_with_a_class_token():
    """Subclassed; class token and positions are weights of the model itself."""
    model = VisionTransformer()
    model.build((None, 8, P // 2, 1))
    return model, rows(8, P // 2, 1), rng().integers(CLASSES, size=ROWS)


class TiedGpt(keras.Model):
    """A causal transformer whose logits are products with the embedding of the words."""

    def __init__(self):
        super().__init__()
        self.embed = TokenAndPositionEmbedding(P, WORDS, WIDTH)
        self.block = TransformerBlock(WIDTH, 2, 6, 0.0, causal=True)

    def call(self, ids):
        x = self.block(self.embed(ids))
        return tf.matmul(x, self.embed.tokens.embeddings, transpose_b=True)


def tied_gpt():
    """Word ids to the next word of each step; the embedding is read as the last layer's kernel."""
    model = TiedGpt()
    model(tf.zeros([1, P], tf.int32))
    words = rng().integers(WORDS, size=(ROWS, P + 1))
    return model, words[:, :-1], words[:, 1:]
