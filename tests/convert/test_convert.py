"""Imported models converted: the same outputs where they can be, and refusals where not."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

import tfdpnorm
from tests.each import each
from tests.gradients.looped_reference import assert_equals_the_loop, double_precision
from tests.private_of import private_of
from tfdpnorm.choices import BATCH_NORMS
from tfdpnorm.convert import Replacement, convert_model, register_converter
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.keras_compat.variables import KERAS_3, path
from tfdpnorm.layers import FrozenBatchNormalization, PublicBatchNormalization, ScaleNorm

SAME = ("public_batch", "frozen")


def randomized(model, seed=0):
    """Weights and averages that are not the initial ones; variances stay above 0."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(rng.uniform(0.5, 1.5, weight.shape) * rng.choice([1, 1, -1]) ** 2)
    for layer in sublayers(model):
        if isinstance(layer, layers.BatchNormalization):
            layer.moving_mean.assign(rng.normal(size=layer.moving_mean.shape))
    return model


def rows_for(model, count=6, seed=1):
    rng = np.random.default_rng(seed)
    spec = model.inputs[0]
    shape = (count, *(size or 5 for size in spec.shape[1:]))
    values = 3 * rng.uniform(size=shape)
    return values.astype(tf.as_dtype(spec.dtype).as_numpy_dtype)


def convolutional(**options):
    return keras.Sequential(
        [
            keras.Input((5, 5, 3)),
            layers.Conv2D(8, 3, name="first"),
            layers.BatchNormalization(name="norm", **options),
            layers.Dropout(0.5),
            layers.Flatten(),
            layers.Dense(2, name="last"),
        ]
    )


def axis_one():
    return keras.Sequential(
        [keras.Input((4, 3, 3)), layers.BatchNormalization(axis=1), layers.Flatten()]
    )


def nested_twice():
    block = keras.Sequential(
        [keras.Input((3,)), layers.Dense(3), layers.BatchNormalization(name="inner")], name="block"
    )
    inputs = keras.Input((3,))
    return keras.Model(inputs, layers.Dense(2)(block(block(inputs))))


def shared():
    inputs = keras.Input((6,))
    norm, dense = layers.BatchNormalization(name="inner"), layers.Dense(6)
    return keras.Model(inputs, layers.Dense(2)(norm(dense(norm(dense(inputs))))))


def by_step():
    inputs = keras.Input((4, 3))
    x = layers.TimeDistributed(layers.Dense(4))(inputs)
    x = layers.TimeDistributed(layers.BatchNormalization(), name="norm")(x)
    return keras.Model(inputs, layers.Dense(2)(layers.Flatten()(x)))


def words():
    return keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            layers.Embedding(10, 4),
            layers.BatchNormalization(),
            layers.Flatten(),
        ]
    )


def renormalized():
    return keras.Sequential(
        [keras.Input((4,)), tf.compat.v1.keras.layers.BatchNormalization(renorm=True)]
    )


MODELS = {
    "convolutional": convolutional,
    "neither scale nor center": lambda: convolutional(scale=False, center=False),
    "synchronized": lambda: convolutional(synchronized=True),
    "axis 1": axis_one,
    "nested twice": nested_twice,
    "shared": shared,
    "by step": by_step,
    "words": words,
    "renormalized": renormalized,
}
if not KERAS_3:  # which has one axis only
    MODELS["several axes"] = lambda: keras.Sequential(
        [keras.Input((4, 3)), layers.BatchNormalization(axis=[1, 2])]
    )


@pytest.mark.slow
@each("batch_norm", BATCH_NORMS)
@each("name", MODELS)
def test_conversion_keeps_names_weights_and_outputs(name, batch_norm):
    model = randomized(MODELS[name]())
    before, rows = model.get_weights(), rows_for(model)
    expected = model(rows).numpy()
    converted, report = convert_model(model, batch_norm, public_rows=rows)
    names = lambda model: [x.name for x in model.layers if x.weights]  # noqa: E731
    assert names(converted) == names(model)
    assert not any(
        type(x) is layers.BatchNormalization and x.trainable for x in sublayers(converted)
    )
    assert report.output_change.rows == len(rows) and str(report).count("\n") >= 4
    if batch_norm in SAME:
        np.testing.assert_allclose(converted(rows), expected, rtol=1e-5, atol=1e-5)
        assert report.output_change.relative < 1e-6
    if batch_norm == "frozen":  # in training too, but for Dropout
        assert bool(report.not_converted) is (name in ("several axes", "by step"))
    # The original is as it was, and shares nothing with the copy.
    converted.set_weights([w + 1 for w in converted.get_weights()])
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(model(rows), expected)


@each("name", [x for x in ("nested twice", "shared", "several axes") if x in MODELS])
def test_layers_without_public_moments_are_frozen_and_reported(name):
    converted, report = convert_model(randomized(MODELS[name]()), "public_batch")
    (layer,) = report.not_converted
    assert layer.after == "FrozenBatchNormalization" and (
        "axes" in layer.note or "several" in layer.note
    )
    assert layer.note in str(report)
    assert not any(isinstance(x, PublicBatchNormalization) for x in sublayers(converted))


@each(("channels", "groups"), [(3, 1), (18, 2), (64, 16), (512, 32)])
def test_groups_have_four_channels_or_more_unless_fewer_are_asked_for(channels, groups):
    model = keras.Sequential([keras.Input((4, 4, channels)), layers.BatchNormalization()])
    (layer,) = convert_model(model, "group")[1].layers
    assert layer.after == f"GroupNormalization({groups})"
    (layer,) = convert_model(model, "group", groups=32)[1].layers
    assert layer.after == f"GroupNormalization({np.gcd(32, channels)})"
    (layer,) = convert_model(model, "layer")[1].layers
    assert layer.after == "GroupNormalization(1)"


class Masked(keras.Model):
    def __init__(self):
        super().__init__()
        self.steps = layers.Embedding(9, 8, mask_zero=True)
        self.norm, self.last = layers.BatchNormalization(), layers.LSTM(2)

    def call(self, x):
        return self.last(self.norm(self.steps(x)))

    def get_config(self):
        return {}


def test_groups_of_masked_sequences_are_not_made():
    steps = [layers.Embedding(9, 8, mask_zero=True), layers.BatchNormalization(), layers.LSTM(2)]
    model = keras.Sequential([keras.Input((4,)), *steps])
    converted, report = convert_model(model, "group")
    (layer,) = report.not_converted
    assert layer.after == "FrozenBatchNormalization" and 'batch_norm="layer"' in layer.note
    rows = np.array([[1, 2, 0, 0]])
    np.testing.assert_allclose(converted(rows), model(rows), rtol=1e-5)
    assert not convert_model(model, "layer")[1].not_converted


def test_a_layer_that_is_always_in_training_is_frozen_and_named():
    inputs = keras.Input((6,))
    x = layers.BatchNormalization(name="norm")(layers.Dense(5)(inputs), training=True)
    model = keras.Model(inputs, layers.Dense(2)(x))
    rows = rows_for(model)
    converted, report = convert_model(model, "public_batch", public_rows=rows)
    assert type(converted.get_layer("norm")) is FrozenBatchNormalization
    (layer,) = report.not_converted
    assert layer.name == "norm" and "training=True" in layer.note


def test_a_model_that_runs_in_no_graph_is_rejected():
    class Eager(layers.Layer):
        def call(self, inputs):
            return inputs * float(tf.reduce_sum(inputs) > 0) if tf.executing_eagerly() else 1 / 0

        def compute_output_shape(self, shape):
            return shape

    outside_of_graphs = {} if KERAS_3 else {"dynamic": True}
    model = keras.Sequential([layers.BatchNormalization(), Eager(**outside_of_graphs)])
    model(tf.zeros([2, 3]))
    with pytest.raises(ValueError, match="graph"):
        convert_model(model, "public_batch")


def test_a_row_like_the_averages_gives_the_same_in_groups():
    """The folded gamma and beta are right where an example's moments are the averages'."""
    model = keras.Sequential([keras.Input((64, 64, 8)), layers.BatchNormalization()])
    rng = np.random.default_rng(0)
    mean, deviation = rng.normal(size=8), rng.uniform(0.5, 2.0, 8)
    model.set_weights([rng.uniform(0.5, 2, 8), rng.normal(size=8), mean, deviation**2])
    rows = rng.normal(size=(2, 64, 64, 8))
    rows = (rows - rows.mean((1, 2), keepdims=True)) / rows.std((1, 2), keepdims=True)
    rows = (rows * deviation + mean).astype(np.float32)
    for batch_norm in ("group", "layer"):
        _, report = convert_model(model, batch_norm, groups=2, public_rows=rows)
        assert report.output_change.relative < 1e-3


def residual():
    inputs = keras.Input((6, 6, 3))
    x = layers.Conv2D(8, 3, padding="same")(inputs)
    y = layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(x))
    x = layers.Add(name="identity")([x, y])
    y, z = layers.Conv2D(16, 1)(x), layers.Conv2D(16, 3, padding="same")(x)
    x = layers.Add(name="projection")([y, z])
    x = layers.GlobalAveragePooling2D()(x)
    other = layers.Dense(16)(layers.Flatten()(inputs))
    return keras.Model(inputs, layers.Add(name="two_networks")([x, other]))


@each("batch_norm", ["group", "public_batch"])
def test_scale_norm_follows_residual_additions_only(batch_norm):
    model = randomized(residual())
    converted, report = convert_model(model, batch_norm, scale_norm=True)
    sums = [x.name for x in converted.layers if isinstance(x, ScaleNorm)]
    assert sums == ["identity", "projection"]
    assert {x.name for x in report.layers if x.after == "ScaleNorm"} == set(sums)
    assert np.isfinite(converted(rows_for(model)).numpy()).all()


def test_frozen_layers_keep_their_batch_normalisation():
    model = randomized(convolutional())
    converted, report = convert_model(model, "public_batch", trainable="head")
    assert [path(v).split("/")[-2] for v in converted.trainable_variables] == ["last", "last"]
    assert type(converted.get_layer("norm")) is layers.BatchNormalization
    assert [x.note for x in report.layers] == ["frozen: stays in inference mode"]
    assert report.trainable == (1, 3) and model.get_layer("first").trainable
    _, report = convert_model(model, "public_batch", trainable="last:2")
    assert report.trainable == (2, 3)
    _, report = convert_model(model, "public_batch", trainable=["f*", "last"])
    assert report.trainable == (2, 3)


class Block(layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units, self.dense = units, layers.Dense(units)
        self.parts = [layers.BatchNormalization(name="in_list"), layers.ReLU()]
        self.inner = keras.Sequential([layers.Dense(units), layers.BatchNormalization(name="deep")])

    def call(self, inputs, training=None):
        x = self.dense(inputs)
        for part in self.parts:
            x = part(x)
        return self.inner(x, training=training)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


class Makes(layers.Layer):
    def build(self, shape):
        self.norm = layers.BatchNormalization(name="made_late")
        super().build(shape)

    def call(self, inputs, training=None):
        return self.norm(inputs, training=training)


@each("layer,inside", [(lambda: Block(4), ("in_list", "deep")), (Makes, ("made_late",))])
def test_normalisation_inside_of_layers_is_frozen_and_reported(layer, inside):
    outer = layer()
    model = randomized(keras.Sequential([keras.Input((3,)), outer, layers.Dense(2)]))
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    converted, report = convert_model(model, "group", public_rows=rows)
    (line,) = report.not_converted
    assert line.name == outer.name and all(name in line.note for name in inside)
    assert report.output_change.relative == 0.0
    for of, trains in ((model, True), (converted, False)):
        norms = [x for x in sublayers(of) if isinstance(x, layers.BatchNormalization)]
        assert len(norms) == len(inside) and {x.trainable for x in norms} == {trains}


def test_subclassed_models_are_rejected():
    model = Masked()
    model(np.ones([2, 4], int))
    with pytest.raises(ValueError, match="subclassed Masked"):
        convert_model(model, "group")


def test_the_constants_of_normalization_are_carried():
    given = layers.Normalization(name="given")
    given.adapt(np.random.default_rng(0).normal(3.0, 2.0, (50, 3)))
    model = keras.Sequential([keras.Input((3,)), given, layers.Dense(2)])
    rows = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    converted, report = convert_model(
        model, "frozen", public_rows=rows, normalization_is_public=True
    )
    assert report.output_change.relative < 1e-6 and "public" in report.layers[0].carried
    make(converted, rows)


class Own(layers.BatchNormalization):
    def call(self, inputs, training=None):
        return super().call(inputs, training=training)


def test_layers_of_ones_own():
    model = randomized(keras.Sequential([keras.Input((3,)), Own(name="own"), layers.Dense(2)]))
    _, report = convert_model(model, "frozen")
    (note,) = (x.note for x in report.not_converted)
    assert "Own" in note

    class Registered(Own):
        pass

    @register_converter(Registered)
    def converter(layer, settings):
        new = layers.Dense(3, name=layer.name, kernel_initializer="identity")
        return Replacement(new, None, f"nothing for {settings.batch_norm}", "everything")

    model = keras.Sequential([keras.Input((3,)), Registered(name="own"), layers.Dense(2)])
    converted, report = convert_model(model, "group")
    assert type(converted.layers[0]) is layers.Dense
    assert (report.layers[0].carried, report.layers[0].note) == ("nothing for group", "everything")


def make(model, rows, **settings):
    private = private_of(
        model,
        expected_batch_size=8,
        steps=1,
        **settings,
    )
    private.compile("sgd", loss="mse")
    rng = np.random.default_rng(2)
    x = rng.uniform(size=(40, *rows.shape[1:])).astype(rows.dtype)
    private.fit(x, np.zeros((40, *private.model(x[:1]).shape[1:]), np.float32), verbose=0)
    assert private.ledger.guarantee_holds
    return private


@pytest.mark.parametrize("batch_norm", ["public_batch", "frozen"])
def test_make_private_converts(batch_norm):
    model = randomized(convolutional())
    rows = rows_for(model)
    public = {"public_batch": rows} if batch_norm == "public_batch" else {}
    private = make(model, rows, convert=batch_norm, **public)
    assert private.model is not model and private.conversion.batch_norm == batch_norm
    assert (private.conversion.output_change is not None) == bool(public)
    folded = tfdpnorm.fold_public_statistics(private)
    np.testing.assert_allclose(folded(rows), private.predict(rows, verbose=0), rtol=1e-4, atol=1e-4)


def test_after_a_conversion_the_rejection_asks_for_a_converter():
    model = keras.Sequential([keras.Input((4,)), Own(name="own"), layers.Dense(1)])
    with pytest.raises(ValueError, match="register_converter.*convert="):
        private_of(model, num_examples=6, expected_batch_size=6, steps=2)
    with pytest.raises(ValueError, match="register_converter") as caught:
        private_of(model, num_examples=6, expected_batch_size=6, steps=2, convert="group")
    assert "convert=" not in str(caught.value) and "convert_model" not in str(caught.value)


def test_the_remedy_is_named_and_wrong_arguments_are_rejected():
    model = convolutional()
    with pytest.raises(ValueError, match='convert="public_batch"'):
        make(model, rows_for(model))
    for convert in ("batch", {"norm": "group"}):
        with pytest.raises(ValueError, match="Expected convert "):
            make(model, rows_for(model), convert=convert)
    for wrong in ("last:0", "last:x", "first", [], 3):
        with pytest.raises(ValueError, match="Expected trainable "):
            convert_model(model, trainable=wrong)
    with pytest.raises(ValueError, match="nobody"):
        convert_model(model, trainable=["nobody"])
    with pytest.raises(ValueError, match="no weights"):
        convert_model(keras.Sequential([layers.BatchNormalization()]))


def test_files_that_hold_no_model(tmp_path):
    with pytest.raises(FileNotFoundError, match="File not found: "):
        convert_model(tmp_path / "none.keras")
    (tmp_path / "text.keras").write_text("no model")
    (tmp_path / "text.h5").write_text("no model")
    model = convolutional()
    model.save_weights(tmp_path / "of.weights.h5")
    keras.Sequential([keras.Input((3,)), Own()]).save(tmp_path / "own.h5")
    for name in ("text.keras", "text.h5", "of.weights.h5", "own.h5"):
        with pytest.raises(ValueError, match="cannot be loaded"):
            convert_model(tmp_path / name)
    convert_model(tmp_path / "own.h5", custom_objects={"Own": Own})
    with pytest.raises(ValueError, match="got int"):
        convert_model(3)


def test_mixed_precision():
    keras.mixed_precision.set_global_policy("mixed_float16")
    model = randomized(convolutional())
    keras.mixed_precision.set_global_policy("float32")
    rows = rows_for(model)
    for batch_norm, kind in (("group", "float32"), ("frozen", "float16")):
        converted, report = convert_model(model, batch_norm, public_rows=rows)
        assert converted.get_layer("norm").compute_dtype == kind
        if batch_norm in SAME:
            assert report.output_change.relative < 2e-3


def without_chance():
    return keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(4, 3),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Conv2D(4, 2),
            layers.BatchNormalization(axis=-1, scale=False),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3),
        ]
    )


@pytest.mark.slow_cases("frozen")
@pytest.mark.parametrize("batch_norm", ["public_batch", "group", "frozen"])
def test_the_sum_of_a_converted_model_equals_the_loop(batch_norm):
    with double_precision():
        model = randomized(without_chance())
    converted, _ = convert_model(model, batch_norm)
    assert_equals_the_loop(converted, counts=(0, 3), clips=(0.05, 1e6))


def test_a_subclass_of_the_frozen_layer_is_rejected():
    class Thawed(FrozenBatchNormalization):
        def call(self, inputs, training=None):
            return layers.BatchNormalization.call(self, inputs, training=training)

    model = keras.Sequential([keras.Input((4,)), Thawed(name="thawed"), layers.Dense(2)])
    with pytest.raises(ValueError, match="mixes the examples"):
        make(model, rows_for(model))


def test_freezing_a_layer_that_was_never_trained_warns():
    """By averages of 0 and 1 it would normalise nothing."""
    settings = {"budget": tfdpnorm.PrivacyBudget(3.0, 1e-5), "num_examples": 9}
    two = [keras.layers.BatchNormalization(name="first"), keras.layers.BatchNormalization()]
    two = keras.Sequential([keras.Input((4,)), *two, keras.layers.Dense(4)])
    with pytest.warns(UserWarning, match="'first', like 1 more, normalises nothing") as said:
        tfdpnorm.make_private(two, convert="frozen", **settings)
    assert [w.filename for w in said if "normalises nothing" in str(w.message)] == [__file__]
    new = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(4), keras.layers.BatchNormalization()]
    )
    with pytest.warns(UserWarning, match="normalises nothing"):
        _, report = convert_model(new, "frozen")
    assert "normalises nothing" in str(report)
    new.layers[-1].set_weights([np.ones(4), np.zeros(4), np.zeros(4), np.full(4, 2.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        _, report = convert_model(new, "frozen")
    assert "as constants" in str(report)
