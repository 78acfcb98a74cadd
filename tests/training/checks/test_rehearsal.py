"""What training would reject of a model is rejected when it is made private, in one line."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of

layers = keras.layers
ROWS = 8


class InALoop(layers.Layer):
    """Calls a layer where its gradients cannot be followed."""

    def __init__(self):
        super().__init__()
        self.inner = layers.Dense(5, name="looped")

    def call(self, x):
        return tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, self.inner(a)), (0, x))[1]


class Transposed(layers.Layer):
    """Reads a variable of another layer."""

    def __init__(self):
        super().__init__()
        self.inner = layers.Dense(4, use_bias=False, name="tied")

    def call(self, x):
        return tf.matmul(self.inner(x), self.inner.kernel, transpose_b=True)


class Folded(layers.Layer):
    """Rows of a dense layer that are not those of the examples."""

    def __init__(self):
        super().__init__()
        self.inner = layers.Dense(2, name="folded")

    def call(self, x):
        return tf.reshape(self.inner(tf.reshape(x, [-1, 1])), [-1, 10])


class Tridiagonal(layers.Layer):
    """An operation that the proof has no rule for."""

    def call(self, x):
        diagonals = (tf.ones_like(x) / 3,) * 3
        return tf.linalg.tridiagonal_matmul(diagonals, x[:, :, tf.newaxis], "sequence")[:, :, 0]


class Centred(layers.Layer):
    def call(self, x):
        return x - tf.reduce_mean(x, 0)


def model_of(layer):
    return keras.Sequential([keras.Input((5,)), layer, layers.Dense(3, name="head")])


def made(model, **settings):
    settings = {"steps": 2, "l2_norm_clip": 0.5, **settings}
    return private_of(model, physical_batch_size=ROWS, **settings)


WITHOUT_A_RULE = {
    "loop": (InALoop, "'looped'.*inside a loop"),
    "tied": (Transposed, "'.*kernel.*is read by 'other code'"),
    "folded": (Folded, "'folded' gives shape .* for 8 examples"),
    "unproved": (Tridiagonal, "cannot be verified.*tridiagonal"),
}


def test_without_book_keeping_rows_run_apart_and_that_is_said(data):
    make, why = WITHOUT_A_RULE["folded"]
    model = model_of(make())
    with pytest.warns(UserWarning, match=f'engine=None takes "per_example".*{why}') as caught:
        private = made(model)
    (price,) = [str(w.message) for w in caught if "engine=None" in str(w.message)]
    assert "\n" not in price
    assert "8 rows or 1 MB" in price and "times as long" in price
    assert private.engine == "per_example"
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    private.fit(*data, epochs=1, steps_per_epoch=1, verbose=0)
    assert "computed by itself" in " ".join(private.privacy_statement().split())


def test_examples_that_meet_are_rejected_and_not_run_apart():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="engine=None takes")
        with pytest.raises(ValueError, match="Mean .* in .*/centred.*: works along the axis"):
            made(model_of(Centred()))


def test_layers_of_keras_in_a_graph_are_not_rehearsed(monkeypatch):
    """They start as fast as they did."""

    def refused(*_):
        raise AssertionError("a model of known layers was traced")

    monkeypatch.setattr("tfdpnorm.training.engine_choice._refused", refused)
    assert made(model_of(layers.LayerNormalization())).engine == "book_keeping"
    with pytest.raises(AssertionError):
        made(model_of(layers.Lambda(lambda x: x + 1)))


def resizing(layer):
    parts = [keras.Input((6, 6, 1)), layer(0.2, name="drawn"), layers.GlobalMaxPooling2D()]
    return keras.Sequential([*parts, layers.Dense(3)])


def test_layers_that_draw_one_size_for_a_batch_are_verified_unless_rows_run_apart():
    with pytest.raises(ValueError, match="size.*'drawn'"):
        made(resizing(layers.RandomHeight), engine="per_example")
    private = made(resizing(layers.RandomWidth))
    private.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(40, 6, 6, 1)).astype(np.float32)
    private.fit(x, np.zeros((40, 3), np.float32), epochs=1, steps_per_epoch=1, verbose=0)
    assert "verified from the graph" in " ".join(private.privacy_statement().split())


def test_rehearsing_changes_neither_weights_nor_random_numbers():
    def numbers(validate):
        keras.utils.set_random_seed(3)
        model = model_of(layers.Lambda(lambda x: tf.nn.dropout(x, 0.5)))
        before = model.get_weights()
        made(model, validate=validate)
        for old, new in zip(before, model.get_weights(), strict=True):
            np.testing.assert_array_equal(old, new)
        return np.random.random(), tf.random.normal([4]).numpy()

    (one, normal), (other, same) = numbers(False), numbers(True)
    assert one == other
    np.testing.assert_array_equal(normal, same)
