"""What metrics see of private examples stays in the metrics."""

import io
import zipfile

import h5py
import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.keras_versions import add_to_built
from tests.private_of import private_of
from tfdpnorm.keras_compat.training import optimizer_variables
from tfdpnorm.keras_compat.variables import KERAS_3, raw

layers = keras.layers
N = 40
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, 4)).astype("float32"), RNG.integers(0, 2, N)
ACCURACY = keras.metrics.SparseCategoricalAccuracy


class Counting(keras.Model):
    """Has a metric as an attribute, as many models of Keras' examples."""

    def __init__(self):
        super().__init__()
        self.dense, self.seen = layers.Dense(2), ACCURACY()

    def call(self, x):
        return self.dense(x)


def network():
    return keras.Sequential([keras.Input((4,)), layers.Dense(2)])


def cross_entropy(y, predictions):
    return keras.losses.sparse_categorical_crossentropy(y, predictions, from_logits=True)


def made(model):
    return private_of(model, steps=2)


def trained(metrics, loss=cross_entropy):
    private = made(network())
    private.compile("sgd", loss, metrics=metrics)
    private.fit(X, Y, verbose=0)
    return private


class Sum(keras.metrics.Metric):
    """Adds up labels in a variable of its own, made one way or the other."""

    def __init__(self, plain=False):
        super().__init__(name=f"sum_{plain}")
        if plain:
            self.total = tf.Variable(0.0, trainable=False)
        else:
            self.total = self.add_weight(name="total", initializer="zeros")

    def update_state(self, y, predictions, sample_weight=None):
        self.total.assign_add(tf.reduce_sum(tf.cast(y, tf.float32)))

    def result(self):
        return tf.identity(self.total)


@each("of_layer, eagerly", [(False, True), (True, False)])
def test_a_metric_that_is_part_of_the_model_is_rejected(of_layer, eagerly):
    if of_layer:
        model = network()
        metric = ACCURACY()
        add_to_built(model.layers[-1], "seen", metric)
    else:
        model = Counting()
        model(X[:1])
        metric = model.seen
    private = made(model)
    with pytest.raises(ValueError, match="is an attribute of the model or of a layer"):
        private.compile("sgd", cross_entropy, metrics={"a": [metric]}, run_eagerly=eagerly)


def test_a_metric_that_writes_another_variable_is_rejected():
    elsewhere = tf.Variable(0.0, trainable=False)

    def writes(y, predictions):
        elsewhere.assign(tf.reduce_sum(tf.cast(y, tf.float32)))
        return tf.zeros_like(predictions[:, 0])

    with pytest.raises(ValueError, match="^A metric changes a variable that is not its own"):
        trained([writes])
    assert elsewhere.numpy() == 0


@each("plain", [False, True])
def test_a_loss_that_reads_a_metric_is_rejected(plain):
    metric = Sum(plain)
    why = "A metric changes a" if KERAS_3 and plain else "The model or the loss reads"
    with pytest.raises(ValueError, match=f"^{why}"):
        trained([metric], lambda y, p: cross_entropy(y, p) * (1.0 + metric.total))
    assert metric.total.numpy() == 0


@each("name", ["lr", "learning_rate", "epsilon", "val_accuracy"])
def test_metrics_named_as_released_numbers_are_rejected(name):
    private = made(network())
    with pytest.raises(ValueError, match=f"A metric is named {name!r}"):
        private.compile("sgd", cross_entropy, metrics=[[ACCURACY(name=name)]])


FORMS = ["model.keras", "model.h5", "some.weights.h5"]
FORMS += [] if KERAS_3 else ["folder", "ckpt"]


def numbers_in(path):
    """All arrays in a file, or in a folder, of a model or of its weights."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            path = io.BytesIO(archive.read("model.weights.h5"))
    elif not str(path).endswith(".h5"):
        inside = path / "variables" / "variables" if path.is_dir() else path
        reader = tf.train.load_checkpoint(str(inside))
        return [reader.get_tensor(name) for name in reader.get_variable_to_shape_map()]
    found = []
    with h5py.File(path, "r") as file:
        file.visititems(lambda _, x: found.append(x[()]) if isinstance(x, h5py.Dataset) else None)
    return found


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
def test_files_hold_nothing_of_what_the_wrapped_model_counted(tmp_path):
    private = trained([])
    private.model.compile("adam", cross_entropy, metrics=["accuracy"])
    private.model.fit(X, Y, verbose=0)
    kept = [
        *optimizer_variables(private.model.optimizer),
        *[v for m in private.model.metrics for v in raw(list(m.variables))],
    ]
    before = [v.numpy() for v in kept]
    telling = [value for value in before if np.any(value)]
    assert len(telling) > 4
    for form in FORMS:
        is_whole = form in ("model.keras", "model.h5", "folder")
        (private.save if is_whole else private.save_weights)(str(tmp_path / form))
        for value in numbers_in(tmp_path / form):
            assert not [t for t in telling if np.array_equal(t, value)]
    for variable, value in zip(kept, before, strict=True):
        np.testing.assert_array_equal(variable, value)
