"""Models with per-example independence, of all the kinds that a validation must let pass."""

import tensorflow as tf
from tensorflow import keras

from tests.independence.verification.coupled_models import Layer
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.layers import ScaleNorm

FEATURES, CLASSES = 5, 3
layers = keras.layers


def sequential(*middle, shape=(FEATURES,)):
    return keras.Sequential([keras.Input(shape), *middle, layers.Dense(CLASSES, name="head")])


def functional(inputs, outputs):
    return keras.Model(inputs, outputs)


def images(*middle):
    return sequential(*middle, layers.Flatten(), shape=(8, 8, 4))


def attention():
    inputs = keras.Input((6,), dtype="int32")
    x = layers.Embedding(50, 8, mask_zero=True)(inputs)
    x = layers.MultiHeadAttention(2, 4, dropout=0.1)(x, x)
    return functional(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x)))


def masked_lstm():
    inputs = keras.Input((None,), dtype="int64")
    x = layers.Embedding(7, 4, mask_zero=True)(inputs)
    x = layers.Bidirectional(layers.LSTM(3, dropout=0.2, recurrent_dropout=0.2))(x)
    return functional(inputs, layers.Dense(CLASSES)(x))


def several_inputs():
    inputs = {
        "image": keras.Input((8, 8, 1), name="image"),
        "id": keras.Input((), name="id", dtype="int32"),
    }
    image = layers.Flatten()(layers.Conv2D(2, 3)(inputs["image"]))
    x = layers.Concatenate()([image, layers.Embedding(9, 2)(inputs["id"])])
    return functional(inputs, {"label": layers.Dense(CLASSES)(x), "size": layers.Dense(1)(x)})


def list_of_inputs():
    inputs = [keras.Input((4,)), keras.Input((2,))]
    x = layers.Concatenate()(inputs)
    return functional(inputs, [layers.Dense(2)(x), Layer(lambda x: tf.argmax(x, -1))(x)])


def bytes_in():
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    x = layers.Rescaling(1 / 255)(inputs)
    return functional(inputs, layers.Dense(CLASSES)(layers.Flatten()(x)))


def public_constants():
    return sequential(layers.Normalization(mean=1.0, variance=2.0))


def public_words():
    inputs = keras.Input((), dtype=tf.string)
    words = layers.TextVectorization(vocabulary=["a", "of"], output_sequence_length=4)(inputs)
    x = layers.Flatten()(layers.Embedding(4, 3)(words))
    return functional(inputs, layers.Dense(CLASSES)(x))


def _branch(x):
    return tf.cond(tf.reduce_sum(tf.shape(x)) > 0, lambda: tf.tanh(x), lambda: x)


def subclassed(branch=_branch):
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden, self.head = layers.Dense(4), layers.Dense(CLASSES)

        def call(self, inputs):
            return self.head(branch(self.hidden(inputs)))

    model = Model()
    model(tf.zeros([2, FEATURES]))
    return model


def with_an_if_over_a_tensor():
    """AutoGraph makes a branch of the graph of it; Keras 3 has no AutoGraph."""

    def branch(x):
        if tf.reduce_sum(tf.shape(x)) > 0:
            x = tf.tanh(x)
        return x

    return subclassed(branch)


class SpectralDense(layers.SpectralNormalization):
    """That of Keras 2.15 cannot be run in a graph."""

    def __init__(self):
        super().__init__(layers.Dense(4))

    def call(self, inputs, training=False):
        if training:
            v = tf.math.l2_normalize(tf.matmul(self.vector_u, self.kernel, transpose_b=True))
            u = tf.stop_gradient(tf.math.l2_normalize(tf.matmul(v, self.kernel)))
            self.vector_u.assign(u)
            self.kernel.assign(self.kernel / tf.matmul(tf.matmul(v, self.kernel), u, False, True))
        return self.layer(inputs)


def counts_its_calls():
    class Counter(layers.Layer):
        def build(self, shape):
            self.calls = self.add_weight(name="calls", initializer="zeros", trainable=False)

        def call(self, inputs):
            self.calls.assign_add(1.0)
            return inputs

    return sequential(Counter())


def dead_for_large_inputs():
    """log of a negative number: nan in rows of their own."""
    return sequential(layers.Lambda(lambda x: tf.math.log(50.0 - x)))


SOUND = {
    "frozen_batch_normalization": lambda: sequential(layers.BatchNormalization(trainable=False)),
    "layer_normalization": lambda: sequential(layers.LayerNormalization()),
    "group_normalization": lambda: images(layers.GroupNormalization(2)),
    "unit_normalization": lambda: sequential(layers.UnitNormalization()),
    "scale_norm": lambda: images(ScaleNorm("group", groups=2)),
    "kernel_that_calls_normalise": lambda: sequential(SpectralDense()),
    "dropout": lambda: sequential(layers.Dense(8), layers.Dropout(0.5)),
    "seeded_dropout": lambda: sequential(layers.Dense(8), layers.Dropout(0.5, seed=3)),
    "gaussian_noise": lambda: sequential(layers.GaussianNoise(0.3), layers.GaussianDropout(0.2)),
    "spatial_dropout": lambda: images(layers.SpatialDropout2D(0.4), layers.Conv2D(3, 3)),
    "random_layers": lambda: images(
        layers.RandomFlip(), layers.RandomTranslation(0.2, 0.2), layers.RandomContrast(0.2)
    ),
    "weight_regularizer": lambda: sequential(layers.Dense(4, kernel_regularizer="l2")),
    "masked_lstm": masked_lstm,
    "gru": lambda: sequential(layers.GRU(3), shape=(6, 2)),
    "convolutional_lstm": lambda: sequential(
        layers.ConvLSTM1D(2, 3), layers.Flatten(), shape=(3, 8, 1)
    ),
    "time_distributed": lambda: sequential(
        layers.TimeDistributed(layers.Dense(4)), layers.Flatten(), shape=(3, 2)
    ),
    "attention": attention,
    "several_inputs": several_inputs,
    "list_of_inputs": list_of_inputs,
    "bytes": bytes_in,
    "lambda": lambda: sequential(layers.Lambda(lambda x: tf.abs(x) + 1.0)),
    "public_constants": public_constants,
    "public_words": public_words,
    "unadapted": lambda: sequential(layers.Normalization()),
    "public_bins": lambda: sequential(layers.Discretization([0.0, 1.0], output_mode="multi_hot")),
    "subclassed": subclassed,
    "counts_its_calls": counts_its_calls,
    "dead_for_large_inputs": dead_for_large_inputs,
}
if not KERAS_3:
    SOUND["with_an_if_over_a_tensor"] = with_an_if_over_a_tensor
