"""Models, layers and losses in which examples meet, each with the operation that has to be named.

They are the classes of fault that probing by examples missed: what couples through sizes, values,
counters, chance, custom gradients, equal labels, state, or the order of axes.
"""

import tensorflow as tf
from tensorflow import keras

P = 8
FEATURES = 4
layers = keras.layers


class Layer(layers.Layer):
    """A layer of one function."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self._function = function

    def call(self, inputs):
        return self._function(inputs)


def around(*middle, shape=(FEATURES,)):
    """A trained layer, the coupling, and a trained layer."""
    first, last = layers.Dense(FEATURES, name="before"), layers.Dense(3, name="head")
    middle = [m if isinstance(m, layers.Layer) else Layer(m, name="coupling") for m in middle]
    return keras.Sequential([keras.Input(shape), first, *middle, layers.Flatten(), last])


@tf.custom_gradient
def gradient_clipped_as_one(x):
    return tf.identity(x), lambda dy: tf.clip_by_norm(dy, 1.0)


@tf.custom_gradient
def gradient_normalized(x):
    return tf.identity(x), lambda dy: dy / tf.norm(dy)


@tf.custom_gradient
def gradient_quantized(x):
    def backward(dy):
        step = tf.reduce_max(tf.abs(dy)) / 127
        return tf.round(dy / step) * step

    return tf.identity(x), backward


@tf.custom_gradient
def gradient_without_its_mean(x):
    return tf.identity(x), lambda dy: dy - tf.reduce_mean(dy, 0)


def centred_from_8_rows(x):
    return x - tf.reduce_mean(x, 0) if (x.shape[0] or 0) >= 8 else x


def ghost_normalized(x):
    groups = tf.reshape(x, [2, P // 2, FEATURES])
    return tf.reshape(groups - tf.reduce_mean(groups, 1, keepdims=True), [P, FEATURES])


def top_eighth_kept(x):
    least = tf.math.top_k(tf.norm(x, axis=1), P // 4).values[-1]
    return tf.where(tf.norm(x, axis=1, keepdims=True) >= least, x, 0.0)


def every_other_row_counts(x):
    shifted = tf.concat([x[1:], x[:1]], 0)
    return tf.where((tf.range(P) % 2 == 0)[:, None], x, shifted)


def expert_capacity(x):
    expert = tf.argmax(x, -1)
    place = tf.cumsum(tf.one_hot(expert, FEATURES), axis=0)
    return (
        x * tf.cast(tf.reduce_max(place * tf.one_hot(expert, FEATURES), -1) < 3, x.dtype)[:, None]
    )


class Counting(layers.Layer):
    """Couples from its hundredth call on."""

    def build(self, shape):
        self.calls = self.add_weight(
            name="calls", shape=(), dtype="int32", initializer="zeros", trainable=False
        )

    def call(self, x):
        self.calls.assign_add(1)
        return tf.cond(self.calls >= 100, lambda: x - tf.reduce_mean(x, 0), lambda: x)


class RunningMean(layers.Layer):
    """Keeps a mean of what it saw."""

    def build(self, shape):
        self.mean = self.add_weight(name="mean", shape=shape[-1:], trainable=False)

    def call(self, x):
        outputs = x - self.mean
        self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(x, 0))
        return outputs


def beyond_a_million(x):
    return tf.cond(tf.reduce_max(tf.abs(x)) > 1e6, lambda: tf.zeros_like(x), lambda: x)


def mixed_up(x):
    other = tf.gather(x, tf.random.shuffle(tf.range(P)))
    return tf.where(tf.random.uniform([]) < 0.1, 0.9 * x + 0.1 * other, x)


def missing_numbers_replaced(x):
    present = tf.where(tf.math.is_nan(x), 0.0, x)
    return tf.where(tf.math.is_nan(x), tf.reduce_mean(present, 0, keepdims=True), x)


def duplicates_removed(x):
    equal = tf.reduce_all(x[:, None] == x[None], -1)
    return x / tf.reduce_sum(tf.cast(equal, x.dtype), 1, keepdims=True)


def from_python(x):
    return x - tf.ensure_shape(tf.numpy_function(lambda a: a.mean(0), [x], tf.float32), [FEATURES])


def batch_as_channels(x):
    image = tf.reshape(tf.transpose(x), [1, FEATURES, 1, P])
    kernel = tf.ones([2, 1, P, P]) / P
    return tf.transpose(tf.reshape(tf.nn.conv2d(image, kernel, 1, "SAME"), [FEATURES, P]))


def transposed_and_back(x):
    return tf.transpose(tf.nn.softmax(tf.transpose(x)))


def trimmed_to_the_longest(x):
    longest = tf.reduce_max(tf.reduce_sum(tf.cast(x[..., 0] > 0, tf.int32), 1))
    found = x[:, :longest]
    return tf.reduce_sum(found, 1) / tf.cast(longest, x.dtype)


def reversed_and_back(x):
    return x[::-1]


def sorted_rows(x):
    return tf.gather(x, tf.argsort(x[:, 0]))


# By name: the model, and the types of operation of which one has to be named.
MODELS = {
    "batch_normalization": (lambda: around(layers.BatchNormalization()), {"Mean"}),
    "batch_normalization_fused": (
        lambda: keras.Sequential(
            [
                keras.Input((4, 4, 2)),
                layers.Conv2D(3, 2),
                layers.BatchNormalization(),
                layers.Flatten(),
                layers.Dense(3),
            ]
        ),
        {"FusedBatchNormV3", "Mean"},
    ),
    "batch_normalization_of_one_channel": (
        lambda: keras.Sequential(
            [
                keras.Input((4, 4, 1)),
                layers.BatchNormalization(),
                layers.Flatten(),
                layers.Dense(3),
            ]
        ),
        {"FusedBatchNormV3", "Mean"},
    ),
    "mean_of_the_batch": (lambda: around(lambda x: x - tf.reduce_mean(x, 0)), {"Mean"}),
    "reversed_rows": (lambda: around(reversed_and_back), {"StridedSlice"}),
    "reversed_and_put_back": (
        lambda: around(reversed_and_back, layers.Dense(4), Layer(reversed_and_back)),
        {"StridedSlice"},
    ),
    "sorted_rows": (lambda: around(sorted_rows), {"TopKV2"}),
    "shifted_rows": (lambda: around(lambda x: tf.roll(x, 1, 0)), {"Roll"}),
    "sum_so_far": (lambda: around(lambda x: tf.cumsum(x, 0)), {"Cumsum"}),
    "attention_over_the_batch": (
        lambda: around(lambda x: tf.nn.softmax(x @ tf.transpose(x)) @ x),
        {"MatMul"},
    ),
    "transposed_and_back": (lambda: around(transposed_and_back), {"Softmax"}),
    "batch_as_channels": (lambda: around(batch_as_channels), {"Conv2D"}),
    "gradient_clipped_as_one": (lambda: around(gradient_clipped_as_one), {"Sum"}),
    "gradient_normalized": (lambda: around(gradient_normalized), {"Sum"}),
    "gradient_quantized": (lambda: around(gradient_quantized), {"Max"}),
    "gradient_without_its_mean": (lambda: around(gradient_without_its_mean), {"Mean"}),
    "from_8_rows_on": (lambda: around(centred_from_8_rows), {"Mean"}),
    "ghost_normalization": (lambda: around(ghost_normalized), {"Reshape"}),
    "the_top_rows": (lambda: around(top_eighth_kept), {"TopKV2"}),
    "every_other_row": (lambda: around(every_other_row_counts), {"StridedSlice"}),
    "expert_capacity": (lambda: around(expert_capacity), {"Cumsum"}),
    "a_counter": (lambda: around(Counting()), {"Mean"}),
    "a_running_mean": (lambda: around(RunningMean()), {"AssignVariableOp"}),
    "large_numbers": (lambda: around(beyond_a_million), {"Max"}),
    "mixup_by_chance": (lambda: around(mixed_up), {"GatherV2"}),
    "missing_numbers": (lambda: around(missing_numbers_replaced), {"Mean"}),
    "duplicates": (lambda: around(duplicates_removed), {"Equal"}),
    "python": (lambda: around(from_python), {"PyFunc"}),
    "the_longest_sequence": (
        lambda: around(trimmed_to_the_longest, shape=(5, FEATURES)),
        {"Max", "StridedSlice"},
    ),
}


def triplet(y, predictions):
    distance = tf.reduce_sum((predictions[:, None] - predictions[None]) ** 2, -1)
    same = tf.cast(y[:, None] == y[None], distance.dtype)
    return tf.reduce_mean(tf.nn.relu(distance * same - distance * (1 - same) + 1), 1)


def weighted_by_counts(y, predictions):
    values = keras.losses.sparse_categorical_crossentropy(y, predictions, from_logits=True)
    counts = tf.math.bincount(tf.cast(y, tf.int32), minlength=3)
    return values / tf.cast(tf.gather(counts, y), values.dtype)


def class_centres(y, predictions):
    sums = tf.math.unsorted_segment_sum(predictions, y, 3)
    return tf.reduce_sum((predictions - tf.gather(sums, y)) ** 2, -1)


def hardest_half(y, predictions):
    values = keras.losses.sparse_categorical_crossentropy(y, predictions, from_logits=True)
    return values * tf.cast(values >= tf.reduce_mean(values), values.dtype)


def contrastive(y, predictions):
    logits = tf.matmul(predictions, predictions, transpose_b=True)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(P), logits)


LOSSES = {
    "batch_all_triplets": (triplet, {"Sub", "Equal"}),
    "weights_by_counts": (weighted_by_counts, {"DenseBincount", "Bincount", "Max"}),
    "class_centres": (class_centres, {"UnsortedSegmentSum"}),
    "hardest_examples": (hardest_half, {"Mean"}),
    "contrastive": (contrastive, {"MatMul"}),
}


class PositionEmbedding(layers.Layer):
    """Of Keras' examples: the vectors of positions come from an `Embedding` of a range."""

    def __init__(self, steps, width):
        super().__init__()
        self.tokens, self.positions = (layers.Embedding(50, width) for _ in range(2))
        self._steps = steps

    def call(self, ids):
        return self.tokens(ids) + self.positions(tf.range(self._steps))


def position_embedding(width=4):
    """As many steps as examples."""
    inputs = keras.Input((P,), dtype="int32")
    x = PositionEmbedding(P, width)(inputs)
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))


class OfConstants(layers.Layer):
    """A trained layer on a constant of the model: a graph, or learned queries."""

    def __init__(self, trained):
        super().__init__()
        self.trained = trained

    def call(self, x):
        return x @ self.trained(tf.eye(P))


def constant_graph():
    inputs = keras.Input((P,))
    return keras.Model(inputs, layers.Dense(3)(OfConstants(layers.Dense(P))(inputs)))


class TimeMajor(layers.Layer):
    """A trained layer on [T, rows, features]."""

    def __init__(self, trained):
        super().__init__()
        self.trained = trained

    def call(self, x):
        return tf.transpose(self.trained(tf.transpose(x, [1, 0, 2])), [1, 0, 2])


def time_major(trained):
    inputs = keras.Input((P, P))
    return keras.Model(inputs, layers.Dense(3)(layers.Flatten()(TimeMajor(trained)(inputs))))


class ConvolutionOfTheBatch(layers.Layer):
    """A trained convolution on [features, rows, ...]."""

    def __init__(self):
        super().__init__()
        self.trained = layers.Conv1D(P, 3, padding="same")

    def call(self, x):
        return tf.transpose(self.trained(tf.transpose(x, [1, 0, 2])), [1, 0, 2])


def convolution_on_a_transpose():
    inputs = keras.Input((P, P))
    return keras.Model(inputs, layers.Dense(3)(layers.Flatten()(ConvolutionOfTheBatch()(inputs))))


class Embedded(layers.Layer):
    """A trained layer on rows that are reversed before and after: no examples meet."""

    def __init__(self):
        super().__init__()
        self.trained = layers.Dense(FEATURES)

    def call(self, x):
        return self.trained(x[::-1])[::-1]


def reversed_around():
    inputs = keras.Input((FEATURES,))
    return keras.Model(inputs, layers.Dense(3)(Embedded()(inputs)))


# A trained layer whose first axis is not that of the examples: the engine would clip wrong rows.
OTHER_ROWS = {
    "constant_graph": (constant_graph, (P,), "float32", "reads no example"),
    "time_major_dense": (
        lambda: time_major(layers.Dense(P)),
        (P, P),
        "float32",
        "got 1 row(s) for each example on axis 1",
    ),
    "convolution_on_a_transpose": (convolution_on_a_transpose, (P, P), "float32", "Conv2D"),
    "reversed_around": (reversed_around, (FEATURES,), "float32", "StridedSlice"),
}
