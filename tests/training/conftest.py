"""Small models and data for private training, and the training step's own clipped sum."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.lots import laid_out
from tests.private_of import private_of
from tfdpnorm.data import Lot
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.training import update

FEATURES, CLASSES = 5, 3


@pytest.fixture(scope="session")
def data():
    """(x [40, 5], y [40] of 3 classes)."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, FEATURES)).astype(np.float32)
    return x, rng.integers(CLASSES, size=40)


@pytest.fixture(scope="session")
def public():
    """[8, 5] public rows."""
    return np.random.default_rng(2).normal(size=(8, FEATURES)).astype(np.float32)


@pytest.fixture(scope="session")
def cross_entropy():
    """Keras loss on logits."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _norm(kind, **settings):
    if kind == "layer":
        return keras.layers.LayerNormalization()
    if kind == "group":
        return keras.layers.GroupNormalization(groups=2)
    if kind == "public_batch":
        return PublicBatchNormalization(**settings)
    return keras.layers.Activation("linear")


class Subclassed(keras.Model):
    def __init__(self, norm):
        super().__init__()
        self.hidden, self.norm = keras.layers.Dense(4), norm
        self.head = keras.layers.Dense(CLASSES)

    def call(self, inputs, training=None):
        return self.head(tf.tanh(self.norm(self.hidden(inputs), training=training)))


class PlainSubclassed(Subclassed):
    def call(self, inputs):
        return self.head(tf.tanh(self.norm(self.hidden(inputs))))


@pytest.fixture(scope="session")
def build():
    """Returns a function that builds a model 5 -> 4 -> norm -> tanh -> 3."""

    def model(kind="sequential", norm="none", **settings):
        if kind == "subclassed":
            cls = Subclassed if norm == "public_batch" else PlainSubclassed
            return cls(_norm(norm, **settings))
        layers = [
            keras.layers.Dense(4),
            _norm(norm, **settings),
            keras.layers.Activation("tanh"),
            keras.layers.Dense(CLASSES),
        ]
        if kind == "sequential":
            return keras.Sequential([keras.Input((FEATURES,)), *layers])
        inputs = outputs = keras.Input((FEATURES,))
        for layer in layers:
            outputs = layer(outputs)
        return keras.Model(inputs, outputs)

    return model


@pytest.fixture
def private():
    """Returns `make_private` with settings that suit 40 examples."""

    def make(model, **settings):
        settings = {
            "steps": 8,
            **settings,
        }
        if "budget" not in settings:
            settings = {"noise_multiplier": 1.0, "delta": 1e-5, **settings}
        return private_of(model, **settings)

    return make


@pytest.fixture
def compiled(private, cross_entropy):
    """Returns a function like `private`, whose models are compiled with SGD."""

    def make(model, **settings):
        made = private(model, **settings)
        made.compile("sgd", cross_entropy)
        return made

    return make


@pytest.fixture
def one_lot():
    """Returns a function that lays rows out as a `Lot` of physical batches, padding among them."""

    def lot(x, y, sample_weight=None, rows=None, padding=0):
        count = len(x)
        rows = rows or count + padding
        batches = max(1, -(-(count + padding) // rows))
        ones = np.ones(count, np.float32)
        weight = ones if sample_weight is None else np.asarray(sample_weight, np.float32)
        x, y, mask, known = (laid_out(each, batches, rows) for each in (x, y, ones, weight))
        # The library's own lots have weight 0 in padding. Here the mask must do without that help.
        missing = [1] * (weight.ndim - 1)
        in_padding = tf.reshape(1 - mask, [*mask.shape, *missing])
        return Lot(x, y, known + in_padding, mask)

    return lot


@pytest.fixture
def step_sum(monkeypatch):
    """Returns a function from a compiled private model to lot -> clipped sum [coordinates].

    It is the training step itself up to the noise, which is replaced by a spy.
    """

    def of(model):
        seen = {}
        # What a step computes is looked at here, not what the ledger says of it.
        model.session.batches.check_step = lambda: None

        def spy(clipped, trained, **_):
            seen["sum"] = tf.concat([tf.reshape(g, [-1]) for g in clipped.sums], 0)
            return [tf.zeros_like(v) for v in trained]

        @tf.function(reduce_retracing=False)
        def step(lot):
            with monkeypatch.context() as patched:
                patched.setattr(update, "private_gradients", spy)
                logs = model.train_step(lot)
            return seen["sum"], logs["nonfinite_gradients"]

        def run(lot):
            model.reset_metrics()
            total, nonfinite = step(lot)
            run.nonfinite = int(nonfinite)
            return total.numpy()

        return run

    return of


@pytest.fixture
def weight_trace():
    """Returns a Keras callback whose `vectors` are the trainable weights [updates + 1, ...]."""

    class Trace(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.vectors = []

        def _keep(self):
            variables = self.model.trainable_variables
            self.vectors.append([v.numpy().copy() for v in variables])

        def on_train_begin(self, logs=None):
            if not self.vectors:
                self._keep()

        def on_train_batch_end(self, batch, logs=None):
            self._keep()

        def updates(self):
            """[updates] of lists of arrays: what each update took away from each variable."""
            return [
                [a.astype(np.float64) - b for a, b in zip(before, after, strict=True)]
                for before, after in zip(self.vectors, self.vectors[1:], strict=False)
            ]

    return Trace
