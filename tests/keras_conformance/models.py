"""Models of the conformance table, with rows for each: functions that return (model, x, y)."""

import numpy as np
from tensorflow import keras

ROWS = 12
L = keras.layers


def _rng():
    return np.random.default_rng(4)


def _rows(*shape):
    return _rng().normal(size=(ROWS, *shape)).astype(np.float32)


def _classes(*shape):
    return _rng().integers(3, size=(ROWS, *shape))


def _made(inputs, outputs):
    keras.utils.set_random_seed(3)
    return keras.Model(inputs, outputs)


def mlp(outputs=3, targets=None):
    """Dense layers; class numbers, or what `targets` gives for [rows, outputs]."""
    model = keras.Sequential(
        [keras.Input((5,)), L.Dense(4, "tanh", kernel_regularizer="l2"), L.Dense(outputs)]
    )
    return model, _rows(5), _classes() if targets is None else targets((ROWS, outputs))


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
    return keras.Sequential([keras.Input((6, 6, 1)), *layers]), _rows(6, 6, 1), _classes()


def pixels():
    """A class for each pixel, probabilities of one class: segmentation."""
    layers = [L.Conv2D(3, 3, padding="same", activation="relu"), L.Conv2D(1, 1)]
    model = keras.Sequential([keras.Input((4, 4, 1)), *layers, L.Activation("sigmoid")])
    return model, _rows(4, 4, 1), (_rows(4, 4, 1) > 0).astype(np.float32)


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
    x = _rng().integers(1, 9, size=(ROWS, 5))
    x[np.arange(5) >= np.resize(lengths, ROWS)[:, None]] = 0
    return model, x, _classes(5)


def two_of_each():
    """Two inputs in a tuple, two outputs in a list."""
    a, b = keras.Input((5,), name="a"), keras.Input((2,), name="b")
    hidden = L.Dense(4, "tanh")(L.concatenate([a, b]))
    outputs = [L.Dense(3, name="kind")(hidden), L.Dense(1, name="size")(hidden)]
    return keras.Model((a, b), outputs), (_rows(5), _rows(2)), (_classes(), _rows(1))


def dicts():
    """Two inputs and two outputs by name."""
    model, x, y = two_of_each()
    inputs = dict(zip(("a", "b"), model.inputs, strict=True))
    outputs = dict(zip(("kind", "size"), model.outputs, strict=True))
    named = keras.Model(inputs, outputs)
    return named, dict(zip("ab", x, strict=True)), dict(zip(("kind", "size"), y, strict=True))


class _Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = L.Dense(4, "tanh"), L.Dense(3)

    def call(self, inputs):
        return self.head(self.hidden(inputs))


def subclassed():
    """A subclass of `keras.Model`."""
    model = _Subclassed()
    model.build((None, 5))
    return model, _rows(5), _classes()


def nested():
    """A model within a model."""
    inner = keras.Sequential([keras.Input((5,)), L.Dense(4, "relu"), L.LayerNormalization()])
    return keras.Sequential([keras.Input((5,)), inner, L.Dense(3)]), _rows(5), _classes()
