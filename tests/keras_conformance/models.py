"""Models of the conformance table, with rows for each: functions that return (model, x, y)."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

ROWS = 12
L = keras.layers


def rng():
    """The same generator each time."""
    return np.random.default_rng(4)


def rows(*shape):
    """The same random numbers each time, [ROWS, ...]."""
    return rng().normal(size=(ROWS, *shape)).astype(np.float32)


def _classes(*shape):
    return rng().integers(3, size=(ROWS, *shape))


def mlp(outputs=3, targets=None):
    """Dense layers; class numbers, or what `targets` gives for [rows, outputs]."""
    model = keras.Sequential(
        [keras.Input((5,)), L.Dense(4, "tanh", kernel_regularizer="l2"), L.Dense(outputs)]
    )
    return model, rows(5), _classes() if targets is None else targets((ROWS, outputs))


def cnn():
    """Convolutions, pooling and group normalisation."""
    layers = [
        L.Conv2D(4, 3, padding="same"),
        L.GroupNormalization(2),
        L.ReLU(),
        L.MaxPooling2D(),
        L.Flatten(),
        L.Dense(3),
    ]
    return keras.Sequential([keras.Input((6, 6, 1)), *layers]), rows(6, 6, 1), _classes()


def pixels():
    """A class for each pixel, probabilities of one class: segmentation."""
    layers = [L.Conv2D(3, 3, padding="same", activation="relu"), L.Conv2D(1, 1)]
    model = keras.Sequential([keras.Input((4, 4, 1)), *layers, L.Activation("sigmoid")])
    return model, rows(4, 4, 1), (rows(4, 4, 1) > 0).astype(np.float32)


def masked_lstm(lengths=(3,), recurrent=True):
    """Words with padding that Keras masks, a class for each word."""
    hidden = L.LSTM(3, return_sequences=True) if recurrent else L.Dense(3, "tanh")
    model = keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            L.Embedding(9, 4, mask_zero=True),
            hidden,
            L.Dense(3),
        ]
    )
    x = rng().integers(1, 9, size=(ROWS, 5))
    x[np.arange(5) >= np.resize(lengths, ROWS)[:, None]] = 0
    return model, x, _classes(5)


def two_of_each():
    """Two inputs in a tuple, two outputs in a list."""
    a, b = keras.Input((5,), name="a"), keras.Input((2,), name="b")
    hidden = L.Dense(4, "tanh")(L.concatenate([a, b]))
    outputs = [L.Dense(3, name="kind")(hidden), L.Dense(1, name="size")(hidden)]
    return keras.Model((a, b), outputs), (rows(5), rows(2)), (_classes(), rows(1))


def dicts(inputs="ab", outputs=("kind", "size")):
    """Two inputs and two outputs by name, in dicts written in the order of the arguments."""
    model, x, y = two_of_each()

    def named(names, parts, order):
        parts = dict(zip(names, parts, strict=True))
        return {name: parts[name] for name in order}

    def of_inputs(parts):
        return named("ab", parts, inputs)

    def of_outputs(parts):
        return named(("kind", "size"), parts, outputs)

    built = keras.Model(of_inputs(model.inputs), of_outputs(model.outputs))
    return built, of_inputs(x), of_outputs(y)


class Subclassed(keras.Model):
    """The same weights each time, whenever they are made."""

    def __init__(self):
        super().__init__()
        self.hidden = L.Dense(4, "tanh", kernel_initializer=keras.initializers.GlorotUniform(1))
        self.head = L.Dense(3, kernel_initializer=keras.initializers.GlorotUniform(2))

    def call(self, inputs):
        return self.head(self.hidden(inputs))


class Tied(Subclassed):
    """Whose head is applied to what comes back through the first layer's kernel."""

    def call(self, inputs):
        back = tf.matmul(self.hidden(inputs), self.hidden.kernel, transpose_b=True)
        return self.head(back)


def subclassed():
    """A subclass of `keras.Model`."""
    model = Subclassed()
    model.build((None, 5))
    return model, rows(5), _classes()


def tied():
    """A subclass of `keras.Model` that reads a weight twice."""
    model = Tied()
    model.build((None, 5))
    return model, rows(5), _classes()


def nested():
    """A model within a model."""
    inner = keras.Sequential([keras.Input((5,)), L.Dense(4, "relu"), L.LayerNormalization()])
    return keras.Sequential([keras.Input((5,)), inner, L.Dense(3)]), rows(5), _classes()


def words():
    """A class for each word, without a mask."""
    hidden = [L.Embedding(9, 4), L.Dense(3, "tanh"), L.Dense(3)]
    model = keras.Sequential([keras.Input((5,), dtype="int32"), *hidden])
    return model, rng().integers(9, size=(ROWS, 5)), _classes(5)


def lstm():
    """A class for each step."""
    layers = [keras.Input((5, 2)), L.LSTM(3, return_sequences=True), L.Dense(3)]
    return keras.Sequential(layers), rows(5, 2), _classes(5)


def not_built(tied=False):
    """A subclass of `keras.Model` that knows no shapes before `fit`; may read a weight twice."""
    return (Tied if tied else Subclassed)(), rows(5), _classes()


def frozen():
    """A layer that is not trained, before one that is."""
    layers = [L.Dense(4, "tanh", trainable=False), L.Dense(3)]
    return keras.Sequential([keras.Input((5,)), *layers]), rows(5), _classes()


def shared():
    """One layer that is called twice."""
    inputs = keras.Input((5,))
    layer = L.Dense(5, "tanh")
    return keras.Model(inputs, L.Dense(3)(layer(layer(inputs)))), rows(5), _classes()


def fine_tuned():
    """Batch normalisation called with training=False: its averages are to be read only."""
    inputs = keras.Input((5,))
    x = L.BatchNormalization()(L.Dense(4)(inputs), training=False)
    return keras.Model(inputs, L.Dense(3)(L.Activation("tanh")(x))), rows(5), _classes()


def batch_normalized():
    """Batch normalisation as usual."""
    layers = [keras.Input((5,)), L.Dense(4), L.BatchNormalization(), L.Dense(3)]
    return keras.Sequential(layers), rows(5), _classes()


def stateful():
    """A recurrent layer that carries its state from batch to batch."""
    layer = L.LSTM(3, stateful=True)
    inputs = keras.Input(batch_shape=(ROWS, 5, 2))
    return keras.Model(inputs, L.Dense(3)(layer(inputs))), rows(5, 2), _classes()


def activity_regularized():
    """A loss on what a layer gives."""
    layers = [keras.Input((5,)), L.Dense(4, activity_regularizer="l2"), L.Dense(3)]
    return keras.Sequential(layers), rows(5), _classes()


def centred():
    """A function that subtracts the mean over the batch."""
    layers = [keras.Input((5,)), L.Lambda(lambda x: x - tf.reduce_mean(x, 0)), L.Dense(3)]
    return keras.Sequential(layers), rows(5), _classes()
