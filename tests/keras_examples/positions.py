"""Ways in which users read positions, class tokens and queries, all with P steps for P examples."""

import tensorflow as tf
from tensorflow import keras

from tests.keras_examples.case import CLASSES, WORDS, Case, P, ids, spec

layers = keras.layers
WIDTH = 4


def _repeated(x, positions):
    return tf.repeat(positions[tf.newaxis], tf.shape(x)[0], axis=0)


# From ids [rows, T] and an embedding to what is added, [rows, T, D] or [T, D].
READ_AS_NO_EXAMPLE = {
    "counted": lambda x, embed: embed(tf.range(start=0, limit=tf.shape(x)[-1])),
    "static": lambda x, embed: embed(tf.range(P)),
    "scaled": lambda x, embed: 2.0 * embed(tf.range(P)),
    "one_row_of_places": lambda x, embed: embed(tf.range(P)[tf.newaxis]),
    "broadcast_vectors": lambda x, embed: tf.broadcast_to(
        embed(tf.range(P)), [tf.shape(x)[0], P, WIDTH]
    ),
}
# What is given as many rows afterwards is not followed to where the examples get it.
GIVEN_ROWS_AFTERWARDS = {
    "given_a_row": lambda x, embed: tf.expand_dims(embed(tf.range(P)), 0),
    "tiled_vectors": lambda x, embed: tf.tile(embed(tf.range(P))[None], [tf.shape(x)[0], 1, 1]),
    "repeated_vectors": lambda x, embed: _repeated(x, embed(tf.range(P))),
}
READ_FOR_EACH_EXAMPLE = {
    "tiled_places": lambda x, embed: embed(tf.tile(tf.range(P)[None], [tf.shape(x)[0], 1])),
    "broadcast_places": lambda x, embed: embed(tf.broadcast_to(tf.range(P), tf.shape(x))),
    "running_count": lambda x, embed: embed(tf.cumsum(tf.ones_like(x), 1, exclusive=True)),
    "not_counting_padding": lambda x, embed: embed(
        tf.cumsum(tf.cast(x > 0, tf.int32), 1, exclusive=True)
    ),
    "sines": lambda x, embed: embed(0 * x) + _sines(tf.shape(x)[1]),
}


def _sines(steps):
    places = tf.cast(tf.range(steps), tf.float32)[:, tf.newaxis]
    angles = places * tf.pow(1e4, -tf.range(0.0, 1.0, 2 / WIDTH))
    return tf.concat([tf.sin(angles), tf.cos(angles)], -1)


class Positions(layers.Layer):
    """Adds positions to tokens, in a way that is given."""

    def __init__(self, read, mask_zero=False, **options):
        super().__init__(**options)
        self.read = read
        self.tokens = layers.Embedding(WORDS, WIDTH, mask_zero=mask_zero)
        self.places = layers.Embedding(P, WIDTH)

    def call(self, x):
        return self.tokens(x) + self.read(x, self.places)

    def compute_mask(self, x, mask=None):
        return self.tokens.compute_mask(x)


def attended(x, **options):
    x = layers.MultiHeadAttention(2, 2)(x, x, **options)
    return layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x))


def with_positions(read, mask_zero=False):
    inputs = keras.Input((P,), dtype="int32")
    outputs = attended(Positions(read, mask_zero)(inputs), use_causal_mask=mask_zero)
    return keras.Model(inputs, outputs)


class Subclassed(keras.Model):
    """As users of PyTorch write it."""

    def __init__(self, read):
        super().__init__()
        self.embed = Positions(read)
        self.attention = layers.MultiHeadAttention(2, 2)
        self.norm = layers.LayerNormalization()
        self.head = layers.Dense(CLASSES)

    def call(self, x, training=None):
        x = self.embed(x)
        x = self.norm(x + self.attention(x, x, use_causal_mask=True, training=training))
        return self.head(tf.reduce_mean(x, 1))


def subclassed(read):
    model = Subclassed(read)
    model(tf.zeros([2, P], tf.int32))
    return model


CLASS_TOKENS = {
    "broadcast": lambda w, rows: tf.broadcast_to(w, [rows, 1, WIDTH]),
    "repeated": lambda w, rows: tf.repeat(w, rows, axis=0),
    "tiled": lambda w, rows: tf.tile(w, [rows, 1, 1]),
    "added_to_zeros": lambda w, rows: tf.zeros([rows, 1, 1]) + w,
}


class ClassToken(layers.Layer):
    """Puts a learned vector before the steps."""

    def __init__(self, spread, **options):
        super().__init__(**options)
        self.spread = spread

    def build(self, shape):
        self.token = self.add_weight(
            name="token", shape=(1, 1, shape[-1]), initializer="random_normal"
        )

    def call(self, x):
        return tf.concat([self.spread(self.token, tf.shape(x)[0]), x], 1)


class AddedWeight(layers.Layer):
    """Adds a learned vector to each step: [1, T, D]."""

    def build(self, shape):
        self.places = self.add_weight(
            name="places", shape=(1, *shape[1:]), initializer="random_normal"
        )

    def call(self, x):
        return x + self.places


class Queries(layers.Layer):
    """Learned queries [rows, P, D], whatever the input."""

    def build(self, shape):
        self.queries = self.add_weight(
            name="queries", shape=(P, WIDTH), initializer="random_normal"
        )

    def call(self, x):
        return tf.repeat(self.queries[tf.newaxis], tf.shape(x)[0], axis=0)


def with_class_token(spread):
    inputs = keras.Input((P - 1, 3))
    x = AddedWeight()(ClassToken(spread)(layers.Dense(WIDTH)(inputs)))
    x += layers.MultiHeadAttention(2, 2)(x, x)
    return keras.Model(inputs, layers.Dense(CLASSES)(x[:, 0]))


def learned_queries():
    """As in a Perceiver: P latent vectors look at longer inputs, and are dense layers' inputs."""
    inputs = keras.Input((12, 3))
    x, latent = layers.Dense(WIDTH)(inputs), Queries()(inputs)
    latent += layers.MultiHeadAttention(1, WIDTH)(layers.LayerNormalization()(latent), x)
    latent += layers.Dense(WIDTH)(layers.Dense(6, "gelu")(latent))
    return keras.Model(inputs, layers.Dense(CLASSES)(tf.reduce_mean(latent, 1)))


def _text(build, *arguments):
    return Case(lambda: build(*arguments), ids(P), ids())


NO_EXAMPLE = {
    f"positions_{name}": _text(with_positions, read) for name, read in READ_AS_NO_EXAMPLE.items()
}
POSITIONS_REFUSED = {
    f"positions_{name}": (_text(with_positions, read), "reads no example")
    for name, read in GIVEN_ROWS_AFTERWARDS.items()
}
NO_EXAMPLE["positions_masked"] = _text(with_positions, READ_AS_NO_EXAMPLE["counted"], True)
NO_EXAMPLE["positions_subclassed"] = _text(subclassed, READ_AS_NO_EXAMPLE["counted"])
EACH_EXAMPLE = {
    f"positions_{name}": _text(with_positions, read) for name, read in READ_FOR_EACH_EXAMPLE.items()
}
EACH_EXAMPLE["positions_subclassed_tiled"] = _text(
    subclassed, READ_FOR_EACH_EXAMPLE["tiled_places"]
)
EACH_EXAMPLE.update(
    {
        f"class_token_{name}": Case(lambda s=spread: with_class_token(s), spec(P - 1, 3), ids())
        for name, spread in CLASS_TOKENS.items()
    }
)
EACH_EXAMPLE["learned_queries"] = Case(learned_queries, spec(12, 3), ids())
