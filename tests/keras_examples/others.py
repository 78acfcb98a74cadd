"""Networks for tables, sets, points and graphs that users bring."""

import tensorflow as tf
from tensorflow import keras

from tests.keras_examples.case import CLASSES, WORDS, Case, P, ids, spec

layers = keras.layers
WIDTH = 4
_TABLE = {"numbers": spec(4), "one": ids(), "other": ids()}


def _columns():
    return {
        name: keras.Input(each.shape[1:], name=name, dtype=each.dtype)
        for name, each in _TABLE.items()
    }


def _pair(ids):
    return tf.strings.join([tf.as_string(each) for each in ids], "_x_")[:, None]


def wide_and_deep():
    """One-hot ids and crossed ones beside embedded ids and numbers."""
    columns = _columns()
    numbers, one, other = columns.values()
    encode = layers.CategoryEncoding(WORDS, output_mode="one_hot")
    crossed = layers.Hashing(7, output_mode="one_hot")(layers.Lambda(_pair)([one, other]))
    wide = layers.Concatenate()([encode(layers.Reshape((1,))(one)), crossed, numbers])
    embedded = [layers.Embedding(WORDS, 3)(x) for x in (one, other)]
    deep = layers.Dense(WIDTH, "relu")(layers.Concatenate()([*embedded, numbers]))
    return keras.Model(columns, layers.Dense(CLASSES)(deep) + layers.Dense(CLASSES)(wide))


def preprocessed():
    """Columns that Keras' layers of preprocessing read."""
    columns = {"numbers": keras.Input((4,)), "word": keras.Input((1,), dtype="string")}
    word = layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")(columns["word"])
    normal = layers.Normalization(mean=0.0, variance=2.0)(columns["numbers"])
    bins = layers.Discretization([0.0, 1.0], output_mode="multi_hot")(columns["numbers"])
    return keras.Model(columns, layers.Dense(CLASSES)(layers.Concatenate()([word, normal, bins])))


def crossed():
    inputs = [keras.Input((1,), dtype="int32"), keras.Input((1,), dtype="int32")]
    x = layers.HashedCrossing(5, output_mode="one_hot")(inputs)
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


class Sampling(layers.Layer):
    def call(self, inputs):
        mean, log_variance = inputs
        noise = tf.random.normal(tf.shape(mean))
        return mean + tf.exp(0.5 * log_variance) * noise


def variational():
    inputs = keras.Input((6,))
    x = layers.Dense(5, "relu")(inputs)
    mean, log_variance = layers.Dense(2)(x), layers.Dense(2)(x)
    decoded = layers.Dense(6)(layers.Dense(5, "relu")(Sampling()([mean, log_variance])))
    return keras.Model(inputs, [decoded, mean, log_variance])


def _evidence(y, predictions):
    decoded, mean, log_variance = predictions
    apart = 1 + log_variance - mean**2 - tf.exp(log_variance)
    return tf.reduce_sum((y - decoded) ** 2, 1) - 0.5 * tf.reduce_sum(apart, 1)


class GatedWeights(layers.Layer):
    """How much each instance of a bag counts."""

    def __init__(self, **options):
        super().__init__(**options)
        self.content, self.gate = layers.Dense(WIDTH, "tanh"), layers.Dense(WIDTH, "sigmoid")
        self.weight = layers.Dense(1)

    def call(self, x):
        return tf.nn.softmax(self.weight(self.content(x) * self.gate(x)), 1)


def bag_of_instances():
    inputs = keras.Input((P, 5))
    x = layers.Dense(WIDTH, "relu")(inputs)
    return keras.Model(inputs, layers.Dense(CLASSES)(tf.reduce_sum(GatedWeights()(x) * x, 1)))


def two_heads():
    """Labels for one head, a network that is not trained for the other."""
    inputs = keras.Input((6,))
    teacher = keras.Sequential([layers.Dense(5, "relu"), layers.Dense(CLASSES)])
    teacher.trainable = False
    x = layers.Dense(WIDTH, "relu")(inputs)
    return keras.Model(
        inputs, [layers.Dense(CLASSES)(x), layers.Dense(CLASSES)(x), teacher(inputs)]
    )


def _distillation(y, predictions):
    hard, soft, taught = predictions
    taught, soft = tf.nn.softmax(taught / 2), tf.nn.softmax(soft / 2)
    divergence = keras.losses.KLD(taught, soft)
    return keras.losses.sparse_categorical_crossentropy(y, hard, True) + 4 * divergence


def point_net():
    """Points in space, turned by a matrix that they decide on themselves."""

    def each(x, filters):
        return tf.nn.relu(layers.LayerNormalization()(layers.Conv1D(filters, 1)(x)))

    def turned(x, size):
        y = layers.GlobalMaxPooling1D()(each(x, 6))
        matrix = layers.Reshape((size, size))(layers.Dense(size * size)(y))
        return layers.Dot(axes=(2, 1))([x, matrix])

    inputs = keras.Input((P, 3))
    x = each(turned(each(turned(inputs, 3), WIDTH), WIDTH), 6)
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalMaxPooling1D()(x)))


def neighbours():
    """Each point and its three nearest."""
    inputs = keras.Input((P, 3))
    distances = tf.reduce_sum((inputs[:, :, None] - inputs[:, None]) ** 2, -1)
    near = tf.math.top_k(-distances, 3).indices
    x = layers.Dense(WIDTH)(inputs)
    apart = tf.gather(x, near, batch_dims=1) - x[:, :, None]
    x = tf.reduce_max(layers.Dense(WIDTH, "relu")(apart), [1, 2])
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


def graph_attention():
    nodes, edges = keras.Input((P, WIDTH)), keras.Input((P, P))
    x = layers.Dense(WIDTH)(nodes)
    scores = layers.Dense(1)(x) + tf.transpose(layers.Dense(1)(x), [0, 2, 1])
    scores = tf.where(edges > 0, tf.nn.leaky_relu(scores), -1e9)
    x = tf.reduce_mean(tf.nn.softmax(scores) @ x, 1)
    return keras.Model([nodes, edges], layers.Dense(CLASSES)(x))


def experts():
    """For each step the two best of four dense layers."""
    inputs = keras.Input((P, WIDTH))
    gates = tf.math.top_k(tf.nn.softmax(layers.Dense(4)(inputs)), 2)
    gate = tf.reduce_sum(tf.one_hot(gates.indices, 4) * gates.values[..., None], -2)
    found = tf.stack([layers.Dense(WIDTH)(inputs) for _ in range(4)], -2)
    x = tf.reduce_sum(gate[..., None] * found, [1, 2])
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


def self_normalizing():
    x = inputs = keras.Input((P,))
    for _ in range(2):
        x = layers.AlphaDropout(0.1)(layers.Dense(6, "selu")(x))
    return keras.Model(inputs, layers.Dense(1)(x))


def mapped():
    """A loop over the examples."""
    inputs = keras.Input((P, WIDTH))
    x = layers.Dense(WIDTH)(inputs)
    centred = layers.Lambda(lambda x: tf.map_fn(lambda row: row - tf.reduce_mean(row, 0), x))(x)
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.Flatten()(centred)))


OTHERS = {
    "wide_and_deep": Case(wide_and_deep, _TABLE, ids()),
    "preprocessing": Case(
        preprocessed, {"numbers": spec(4), "word": spec(1, dtype=tf.string)}, ids()
    ),
    "variational_autoencoder": Case(variational, spec(6), spec(6), _evidence),
    "bag_of_instances": Case(bag_of_instances, spec(P, 5), ids()),
    "distillation": Case(two_heads, spec(6), ids(), _distillation),
    "point_net": Case(point_net, spec(P, 3), ids()),
    "nearest_neighbours": Case(neighbours, spec(P, 3), ids()),
    "graph_attention": Case(graph_attention, (spec(P, WIDTH), spec(P, P)), ids()),
    "mixture_of_experts": Case(experts, spec(P, WIDTH), ids()),
    "self_normalizing": Case(self_normalizing, spec(P), spec(1), "mean_squared_error"),
}
# By name: the case, and words of what stops its proof.
OTHERS_REFUSED = {
    "hashed_crossing": (Case(crossed, (ids(1), ids(1)), ids()), "SparseCross"),
    "map_over_examples": (Case(mapped, spec(P, WIDTH), ids()), "makes a list of the examples"),
}
