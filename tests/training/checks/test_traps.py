"""What a first user fell into: said in one line, before it costs an update or a private value."""

import io
import traceback
import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.training.checks.scales import warn_of_other_scale, warn_of_unscaled_images

layers = keras.layers
SPARSE, DENSE = keras.losses.SparseCategoricalCrossentropy, keras.losses.CategoricalCrossentropy


@pytest.fixture
def refused(build, private, data):
    """Returns a function to the message with which `fit` rejects targets, before any update."""

    def message(loss, y, model=None):
        trained = private(model or build("functional"))
        trained.compile("sgd", loss)
        with pytest.raises(
            ValueError, match="^(Expected|The loss|Some (class numbers|targets))"
        ) as caught:
            trained.fit(data[0], y, verbose=0)
        assert trained.ledger.updates == 0
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return message


def test_targets_of_another_loss(refused, data):
    for loss in (SPARSE(True), "sparse_categorical_crossentropy"):
        text = refused(loss, np.eye(3, dtype=np.float32)[data[1]])
        assert "CategoricalCrossentropy" in text and "y.argmax(-1)" in text
    for loss in (DENSE(True), "categorical_crossentropy"):
        assert "SparseCategoricalCrossentropy" in refused(loss, data[1])


@each("moved", [77, -77])
def test_class_numbers_out_of_range_are_rejected_and_not_shown(moved, refused, data):
    text = refused(SPARSE(True), data[1] + moved)
    assert "class numbers are outside of [0, 3)" in text
    assert not any(str(label) in text for label in np.unique(data[1] + moved))


def test_unknown_labels_are_not_turned_into_negative_ones(refused, data):
    several = keras.Sequential([keras.Input((5,)), layers.Dense(3, "sigmoid")])
    labels = np.stack([data[1] % 2, data[1] % 2 - 1, data[1] % 2], axis=1)
    assert "labels-that-are-unknown" in refused("binary_crossentropy", labels, several)
    one = keras.Sequential([keras.Input((5,)), layers.Dense(1, "sigmoid")])
    assert "astype(int)" in refused("binary_crossentropy", labels[:, 1], one)


def test_the_error_of_a_loss_is_shown(refused, data):
    def fails(y, predictions):
        raise ValueError("gamma is missing")

    assert "'fails'" in (text := refused(fails, data[1])) and "gamma is missing" in text


def _of_ids(kind):
    ids, numbers = keras.Input((3,), dtype="int32", name="b_ids"), keras.Input((4,), name="a")
    vectors = layers.Flatten()(layers.Embedding(5, 2, name="words")(ids))
    both = layers.Concatenate()([vectors, numbers])
    if kind == "one":
        return keras.Sequential(
            [
                keras.Input((3,), dtype="int32"),
                layers.Embedding(5, 2, name="words"),
                layers.Flatten(),
                layers.Dense(1),
            ]
        )
    inputs = [ids, numbers] if kind == "list" else {"b_ids": ids, "a": numbers}
    return keras.Model(inputs, layers.Dense(1)(both))


@each("kind", ["one", "list", "dict"])
def test_ids_that_an_embedding_does_not_have_are_rejected_and_not_shown(kind, private):
    trained = private(_of_ids(kind))
    trained.compile("sgd", "mse")
    ids, numbers = np.full((40, 3), 4), np.full((40, 4), 9.0, np.float32)
    x = {"one": ids, "list": [ids, numbers], "dict": {"a": numbers, "b_ids": ids}}[kind]
    for wrong in (-1, 5):
        ids[7, 1] = wrong
        with pytest.raises(ValueError, match=r"^Some ids are outside of \[0, 5\)") as caught:
            trained.fit(x, np.zeros(40), epochs=1, steps_per_epoch=1, verbose=0)
        assert "'words'" in str(caught.value) and str(wrong) not in str(caught.value)[40:]
    assert trained.ledger.updates == 0
    if kind == "dict":
        ids[7, 1] = 4
        trained.fit(x, np.zeros(40), epochs=1, steps_per_epoch=1, verbose=0)


def test_a_class_that_is_ignored_may_be_out_of_range(build, private, data):
    trained = private(build("functional"))
    trained.compile("sgd", SPARSE(True, ignore_class=-1))
    trained.fit(data[0], np.where(data[1] == 0, -1, data[1]), epochs=1, verbose=0)
    assert trained.ledger.updates == 4


@pytest.mark.parametrize("eagerly", [False, True])
def test_tracebacks_hold_no_private_value(eagerly, private):
    inputs = keras.Input((1,), dtype="int32")
    flat = layers.Flatten()(inputs)  # before the embedding: fit looks at what goes into it directly
    x = layers.Flatten()(layers.Embedding(4, 2)(flat))
    trained = private(keras.Model(inputs, layers.Dense(1)(x)))
    trained.compile("sgd", "mse", run_eagerly=eagerly)
    ids = np.full((40, 1), 987)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        trained.fit(ids, np.zeros(40), verbose=0)
    written = io.StringIO()
    traceback.print_exception(caught.value, file=written)
    assert "987" not in written.getvalue()
    assert "out of range" in str(caught.value)


def test_epochs_beyond_the_plan_are_said(compiled, build, data):
    trained = compiled(build(), steps=8)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Only .* of epochs=")
        trained.fit(*data, epochs=1, verbose=0)
    with pytest.warns(UserWarning, match="Only 1 of epochs=10"):
        trained.fit(*data, epochs=10, verbose=0)
    assert trained.ledger.updates == 8


def test_public_rows_on_another_scale_are_said(build, private, public, data):
    trained = private(build(norm="public_batch"), public_batch=public * np.float32(255))
    trained.compile("sgd", SPARSE(True))
    with pytest.warns(UserWarning, match="20 times larger than the private ones") as caught:
        trained.fit(*data, epochs=1, steps_per_epoch=1, verbose=0)
    (text,) = [str(w.message) for w in caught if "20 times" in str(w.message)]
    assert "keep it with them" in text and "\n" not in text


@each("pair", [(0, 1), (1, 0)])
def test_images_with_and_without_negative_pixels_are_said(pair):
    pixels = np.random.default_rng(0).random((9, 4, 4, 1))
    images = (pixels, 2 * pixels - 1)
    names = ("public", "private")
    text = f"pixels of the {names[pair[1]]} images are negative, and none of the {names[pair[0]]}"
    with pytest.warns(UserWarning, match=text):
        warn_of_other_scale(*(images[i] for i in pair))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_other_scale(images[pair[0]], images[pair[0]])
        dark = pixels - 0.05  # a few noisy pixels below black
        warn_of_other_scale(pixels, dark)


class TestUnscaledImages:
    """Whole numbers as images: what is said follows from dtypes and shapes alone."""

    def found(self, dtype="uint8", layers=(), shape=(4, 4, 1)):
        model = keras.Sequential(
            [keras.Input(shape), *layers, keras.layers.Flatten(), keras.layers.Dense(2)]
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_of_unscaled_images(model, np.zeros((3, *shape), dtype))
        return [str(w.message) for w in caught]

    @each(
        "scale, dtype, told",
        [
            (255, "uint8", "whole numbers"),
            (1, "float32", ""),
        ],
    )
    def test_fit_warns_once(self, compiled, scale, dtype, told):
        model = keras.Sequential(
            [keras.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(3)]
        )
        trained = compiled(model)
        count = trained.plan.num_examples
        x, y = np.zeros((count, 4, 4, 1), dtype), np.zeros(count, "int32")
        x[:, 0] = scale
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trained.fit(x, y, epochs=1, steps_per_epoch=1, verbose=0)
        of_scale = [str(w.message) for w in caught if "from 0 to 255" in str(w.message)]
        assert len(of_scale) == bool(told) and all(told in text for text in of_scale)


class TestUnscaledTables:
    """Columns of floats that are no numbers of size 1."""

    @each(
        "kind, scale, told",
        [
            ("plain", 1.0, False),
            ("in a dict", 40.0, True),
            ("scaled", 40.0, False),
        ],
    )
    def test_are_warned_of_in_fit(self, compiled, kind, scale, told):
        inputs = keras.Input((4,), name="age")
        scaled = keras.layers.Rescaling(0.01)
        first = scaled if kind == "scaled" else keras.layers.Activation("linear")
        outputs = keras.layers.Dense(3)(keras.layers.Flatten()(first(inputs)))
        trained = compiled(keras.Model({"age": inputs} if kind == "in a dict" else inputs, outputs))
        count = trained.plan.num_examples
        x = np.full((count, 4), scale, np.float32)
        x = {"age": x} if kind == "in a dict" else x
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trained.fit(x, np.zeros(count, "int32"), epochs=1, steps_per_epoch=1, verbose=0)
        found = [str(w.message) for w in caught if "large numbers" in str(w.message)]
        assert len(found) == told and all("public constants" in text for text in found)


@each(
    "scale, dtype, told",
    [(50_000, "float32", True), (50_000, "int32", False)],
)
def test_large_targets_are_warned_of_in_fit(private, scale, dtype, told):
    trained = private(keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]))
    trained.compile("sgd", "mse")
    count = trained.plan.num_examples
    x, y = np.ones((count, 4), np.float32), np.full(count, scale, dtype)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained.fit(x, y, epochs=1, steps_per_epoch=1, verbose=0)
    found = [str(w.message) for w in caught if "Most targets are above 100" in str(w.message)]
    assert len(found) == told and all("public constants" in text for text in found)
