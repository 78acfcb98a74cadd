"""What training would reject of a model is rejected when it is made private, in one line."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.data import Lot

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


class Keeping(layers.Layer):
    """Keeps what it saw of examples."""

    def call(self, x):
        return tf.ensure_shape(tf.numpy_function(lambda a: a * 2, [x], tf.float32), [None, 5])


class Counting(layers.Layer):
    """Counts its calls in training, which nothing reads."""

    def __init__(self):
        super().__init__()
        self.calls = tf.Variable(0.0, trainable=False)

    def call(self, x, training=None):
        if training:
            self.calls.assign_add(1.0)
        return x


class Flipping(Counting):
    """Has another sign in every other call."""

    def call(self, x, training=None):
        return super().call(x, training=training) * tf.cos(np.pi * self.calls)


class Dropping(layers.Layer):
    """Random numbers in a layer of one's own."""

    def __init__(self):
        super().__init__()
        self.drop = layers.Dropout(0.5)

    def call(self, x, training=None):
        return self.drop(x, training=training) + 1.0


class Centred(layers.Layer):
    def call(self, x):
        return x - tf.reduce_mean(x, 0)


def model_of(layer):
    return keras.Sequential([keras.Input((5,)), layer, layers.Dense(3, name="head")])


def made(model, **settings):
    settings = {"num_examples": 40, "expected_batch_size": 10, "steps": 2, **settings}
    settings = {"l2_norm_clip": 0.5, "noise_multiplier": 1.0, "delta": 1e-5, **settings}
    return private_of(model, physical_batch_size=ROWS, **settings)


WITHOUT_A_RULE = {
    "loop": (InALoop, "'looped'.*inside a loop"),
    "tied": (Transposed, "'.*kernel.*is read by 'other code'"),
    "folded": (Folded, "layer 'folded' to give 8 rows for 8 examples"),
    "unproved": (Tridiagonal, "cannot be verified.*tridiagonal"),
}


@pytest.mark.slow_cases("loop", "tied", "unproved")
@pytest.mark.parametrize("name", WITHOUT_A_RULE)
def test_without_book_keeping_rows_run_apart_and_that_is_said(name, data):
    make, why = WITHOUT_A_RULE[name]
    model = model_of(make())
    with pytest.warns(UserWarning, match=f'engine=None takes "per_example".*{why}') as caught:
        private = made(model)
    (price,) = [str(w.message) for w in caught if "engine=None" in str(w.message)]
    assert "\n" not in price
    assert "8 rows or 1 MB" in price and "several times as long" in price
    assert private.engine == "per_example"
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    private.fit(*data, epochs=1, steps_per_epoch=1, verbose=0)
    assert "computed by itself" in " ".join(private.privacy_statement().split())


@pytest.mark.parametrize("name", WITHOUT_A_RULE)
def test_asked_for_by_name_it_is_rejected_at_once_in_one_line(name):
    make, why = WITHOUT_A_RULE[name]
    with pytest.raises(
        ValueError, match=f"^(Expected|Layer|Variable|Per-example) .*{why}"
    ) as caught:
        made(model_of(make()), engine="book_keeping")
    assert "\n" not in str(caught.value) and "user code" not in str(caught.value)
    assert "per_example" in str(caught.value)


@pytest.mark.parametrize("engine", [None, "book_keeping", "per_example"])
def test_models_that_keep_examples_are_rejected_by_all_engines(engine):
    with pytest.raises(ValueError, match="^Examples change state of the model.*keeping") as got:
        made(model_of(Keeping()), engine=engine)
    assert "\n" not in str(got.value)


@pytest.mark.quick_cases("Flipping-book_keeping")
@pytest.mark.parametrize("engine", ["book_keeping", "per_example"])
@pytest.mark.parametrize("layer", [Counting, Flipping])
def test_layers_that_count_physical_batches_train(layer, engine, data, recwarn):
    """Their number is public, and the count is that of a position."""
    private = made(model_of(layer()), engine=engine)
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    private.fit(*data, verbose=0)
    assert private.ledger.guarantee_holds and private.ledger.updates == 2
    assert not [w for w in recwarn if "independence" in str(w.message)]


@pytest.mark.quick_cases("book_keeping")
@pytest.mark.parametrize("engine", ["book_keeping", "per_example"])
def test_without_one_example_others_read_the_same_count(engine):
    """With 1 row in a physical batch, each position has another sign of the loss."""
    layer = Flipping()
    head = layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((2,)), head, layer])
    settings = {"num_examples": 7, "expected_batch_size": 7, "steps": 1, "noise_multiplier": 1.0}
    settings |= {"l2_norm_clip": 1.0, "delta": 1e-5, "physical_batch_size": 1, "validate": False}
    private = private_of(model, engine=engine, **settings)
    private.compile("sgd", lambda y, predictions: 100.0 * predictions[:, 0])
    rows = [[0.0, 1.0], *[[1.0, 0.0], [-1.0, 0.0]] * 3]

    def clipped_sum(mask):
        layer.calls.assign(0.0)
        x = tf.constant(rows)[:, tf.newaxis] * tf.reshape(mask, [7, 1, 1])
        lot = Lot(x, *[tf.reshape(mask, [7, 1])] * 3)
        return private.clipped_sum(lot)[0].numpy()

    whole = clipped_sum(np.ones(7, "float32"))
    without = [clipped_sum(1 - np.eye(7, dtype="float32")[i]) for i in range(7)]
    assert max(np.linalg.norm(whole - other) for other in without) <= 1 + 1e-6
    # At the front, the others would all get another sign.
    front = (np.arange(7) < 6).astype("float32")
    rows = rows[1:] + rows[:1]
    assert np.linalg.norm(whole - clipped_sum(front)) > 10


def test_examples_that_meet_are_rejected_and_not_run_apart():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="engine=None takes")
        with pytest.raises(ValueError, match="Mean .* in .*/centred.*: works along the axis"):
            made(model_of(Centred()))


def test_rejected_models_write_no_files(tmp_path):
    with pytest.raises(ValueError, match="^Examples change state"):
        made(model_of(Keeping()), run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_resumed_run_has_the_engine_that_it_had(tmp_path, data):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for resume in (False, True):
        with pytest.warns(UserWarning, match="engine=None takes"):
            private = made(model_of(Transposed()), run_dir=tmp_path / "run", resume=resume)
        private.compile("sgd", loss)
        private.fit(*data, epochs=1 + resume, steps_per_epoch=1, verbose=0)
        private.ledger.close()
    assert private.ledger.updates == 2


def test_layers_of_keras_in_a_graph_are_not_rehearsed(monkeypatch):
    """They start as fast as they did."""

    def refused(*_):
        raise AssertionError("a model of known layers was traced")

    monkeypatch.setattr("tfdpnorm.training.engine_choice._refused", refused)
    assert made(model_of(layers.LayerNormalization())).engine == "book_keeping"
    with pytest.raises(AssertionError):
        made(model_of(layers.Lambda(lambda x: x + 1)))


def with_an_operation():
    """A functional model of which an operation is part, as many of `keras.applications` are."""
    inputs = keras.Input((5,))
    x = layers.Dropout(0.5)(layers.GaussianNoise(0.1)(inputs) + 1.0)
    return keras.Model(inputs, layers.Dense(3)(x))


@pytest.mark.slow_cases("<lambda>")
@pytest.mark.parametrize("make", [with_an_operation, lambda: model_of(Dropping())])
def test_random_layers_are_verified_rehearsed_as_when_trained(make, data, recwarn):
    private = made(make())
    assert private.engine == "book_keeping"
    assert not [w for w in recwarn if "engine" in str(w.message)]
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    private.fit(*data, verbose=0)
    assert private.ledger.guarantee_holds and private.ledger.updates == 2


DRAWN_ONCE = {
    "crop": lambda: layers.RandomCrop(5, 5),
    "contrast": lambda: layers.RandomContrast(0.2),
    "dropout": lambda: layers.Dropout(0.3, noise_shape=(1, 6, 6, 1)),
}


@pytest.mark.quick_cases("dropout")
@pytest.mark.parametrize("name", DRAWN_ONCE)
def test_layers_of_keras_that_draw_once_for_a_batch_are_verified(name):
    parts = [keras.Input((6, 6, 1)), DRAWN_ONCE[name](), layers.GlobalMaxPooling2D()]
    private = made(keras.Sequential([*parts, layers.Dense(3)]))
    private.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(40, 6, 6, 1)).astype(np.float32)
    private.fit(x, np.zeros((40, 3), np.float32), epochs=1, steps_per_epoch=1, verbose=0)
    assert private.engine == "book_keeping" and private.ledger.guarantee_holds
    assert "verified from the graph" in " ".join(private.privacy_statement().split())


RESIZING = [layers.RandomHeight, layers.RandomWidth]


def resizing(layer):
    parts = [keras.Input((6, 6, 1)), layer(0.2, name="drawn"), layers.GlobalMaxPooling2D()]
    return keras.Sequential([*parts, layers.Dense(3)])


@pytest.mark.parametrize("layer", RESIZING)
def test_layers_that_draw_sizes_are_rejected_if_rows_run_apart(layer):
    with pytest.raises(ValueError, match="^Expected examples that keep their size.*'drawn'.*Zoom"):
        made(resizing(layer), engine="per_example")


@pytest.mark.parametrize("layer", RESIZING)
def test_layers_that_draw_one_size_for_a_batch_are_verified(layer):
    private = made(resizing(layer))
    private.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(40, 6, 6, 1)).astype(np.float32)
    private.fit(x, np.zeros((40, 3), np.float32), epochs=1, steps_per_epoch=1, verbose=0)
    assert "verified from the graph" in " ".join(private.privacy_statement().split())


class Late(keras.Model):
    """Knows no shapes before it is called."""

    def __init__(self):
        super().__init__()
        self.held, self.head = Transposed(), layers.Dense(3)

    def call(self, x):
        return self.head(self.held(x))


def test_fit_rejects_unknown_shapes_before_the_ledger(data):
    private = made(Late(), engine="book_keeping")
    private.compile("sgd", "mse")
    with pytest.raises(ValueError, match="^Variable .* is read by 'other code'") as caught:
        private.fit(data[0], data[0][:, :3], verbose=0)
    assert "\n" not in str(caught.value)
    assert private.ledger.updates == 0


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
