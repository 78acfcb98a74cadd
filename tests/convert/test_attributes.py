"""Layers exchanged inside of others: wherever they are held, and files that do not know of it."""

import collections

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

import tfdpnorm
from tests.each import each
from tests.private_of import private_of
from tfdpnorm.convert import convert_model, export
from tfdpnorm.keras_compat.models import sublayers

X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
SEQUENCES = np.random.default_rng(1).normal(size=(6, 5, 2)).astype(np.float32)
Pair = collections.namedtuple("Pair", "dense norm")


@keras.utils.register_keras_serializable("test_attributes")
class Residual(layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units, self.dense = units, layers.Dense(units)
        self.norm = layers.BatchNormalization()

    def call(self, inputs, training=None):
        return inputs + tf.nn.relu(self.norm(self.dense(inputs), training=training))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.utils.register_keras_serializable("test_attributes")
class OfStep(Residual):
    """As `TimeDistributed` of Keras 3 needs it."""

    def build(self, shape):
        self.dense.build(shape)
        self.norm.build((*shape[:-1], self.units))

    def compute_output_shape(self, shape):
        return shape


def functional():
    inputs = keras.Input((4,))
    return keras.Model(inputs, layers.Dense(1)(Residual(4, name="res")(inputs)))


def by_step():
    inputs = keras.Input((2, 4))
    x = layers.TimeDistributed(OfStep(4), name="steps")(inputs)
    return keras.Model(inputs, layers.Dense(1)(x))


def moved(model):
    """Averages that are not the initial ones."""
    for layer in sublayers(model):
        if isinstance(layer, layers.BatchNormalization):
            layer.moving_mean.assign_add(0.3 * np.ones(layer.moving_mean.shape))
    return model


def private_with(model, rows=X, **settings):
    settings = {"num_examples": 6, "expected_batch_size": 6, "steps": 2, **settings}
    return private_of(model, **settings)


def test_a_file_that_could_not_be_loaded_again_is_not_written(tmp_path):
    with pytest.warns(UserWarning, match="save_weights"):
        private = private_with(moved(functional()), convert="public_batch", public_batch=X + 9)
    private.compile("sgd", "mse")
    checkpoint = keras.callbacks.ModelCheckpoint(str(tmp_path / "best.keras"))
    with pytest.raises(ValueError, match="ModelCheckpoint"):
        private.fit(X, X[:, :1], verbose=0, callbacks=[checkpoint])
    assert private.ledger.updates == 0
    kept = keras.callbacks.ModelCheckpoint(
        str(tmp_path / "kept" / "of.weights.h5"), save_weights_only=True
    )
    private.fit(X, X[:, :1], verbose=0, callbacks=[kept])
    for name in ("model.keras", "model.h5", "saved_model"):
        with pytest.raises(ValueError, match="cannot be saved"):
            private.save(tmp_path / name)
        assert not (tmp_path / name).exists()
    for of in (private, private.model):
        with pytest.raises(ValueError, match="cannot be folded"):
            tfdpnorm.fold_public_statistics(of)
    with pytest.raises(ValueError, match="cannot be exported"):
        export(private, tmp_path / "export", X)
    assert not (tmp_path / "export").exists()
    for trainable in (None, "head"):
        with pytest.raises(ValueError, match="cannot be converted"):
            convert_model(private.model, "public_batch", trainable=trainable)
    # The remedy that all of them name.
    private.save_weights(str(tmp_path / "last.weights.h5"))
    again, _ = convert_model(functional(), "public_batch")
    again.load_weights(str(tmp_path / "last.weights.h5"))
    np.testing.assert_array_equal(again(X), private.model(X))


def test_a_wrapper_is_known_as_far_as_its_config_goes():
    # Keras writes no package into the configs that wrappers have.
    converted, _ = convert_model(by_step(), "group", custom_objects={"OfStep": OfStep})
    with pytest.raises(ValueError, match="'steps'"):
        tfdpnorm.fold_public_statistics(converted)
    inputs = keras.Input((2, 4))
    x = layers.TimeDistributed(layers.BatchNormalization())(inputs)
    converted, report = convert_model(keras.Model(inputs, layers.Dense(1)(x)), "group")
    tfdpnorm.fold_public_statistics(converted)
    assert report.not_converted == ()


class Nested(layers.Layer):
    """Holds what it runs in one attribute."""

    def __init__(self, form, **kwargs):
        super().__init__(**kwargs)
        self.form, self.parts = form, FORMS[form]()

    def call(self, inputs, training=None):
        for part in sublayers(self):
            inputs = part(inputs)
        return inputs

    def get_config(self):
        return {**super().get_config(), "form": self.form}


FORMS = {
    "deep": lambda: [[], [[{"a": [1, "b", [layers.BatchNormalization()]]}], layers.Dense(4)]],
    "tuples": lambda: ((layers.Dense(4), (layers.BatchNormalization(),)),),
    "dict of lists": lambda: {"one": [[layers.Dense(4)]], "two": ([layers.BatchNormalization()],)},
    "named": lambda: [Pair(layers.Dense(4), layers.BatchNormalization())],
}


@each("form", FORMS)
def test_containers_in_containers(form):
    inputs = keras.Input((4,))
    model = moved(keras.Model(inputs, layers.Dense(1)(Nested(form)(inputs))))
    converted, report = convert_model(model, "frozen", public_rows=X)
    assert report.not_converted == () and report.output_change.relative < 1e-6
    assert [x.after for x in report.layers] == ["FrozenBatchNormalization"]
    assert not any(type(x) is layers.BatchNormalization for x in sublayers(converted))
    before, after = (model.layers[1].parts, converted.layers[1].parts)
    if form == "named":
        assert type(before[0].norm) is layers.BatchNormalization and len(after[0]) == 2


class OutOfReach(layers.Layer):
    """Keras tracks what its lists hold; nothing can be set in an attribute without a setter."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._self_hidden = layers.BatchNormalization(name="hidden")

    def call(self, inputs, training=None):
        return self._self_hidden(inputs, training=training)


def test_layers_out_of_reach_are_reported():
    inputs = keras.Input((4,))
    model = keras.Model(inputs, layers.Dense(1)(OutOfReach(name="outer")(inputs)))
    (layer,) = convert_model(model, "group").report.not_converted
    assert layer.name == "outer/hidden" and layer.note


class Attending(keras.Model):
    """Attention makes its layers when it is built; with or without what is to be exchanged."""

    def __init__(self, normalizes):
        super().__init__()
        self.normalizes = normalizes
        self.attention, self.last = layers.MultiHeadAttention(1, 3), layers.Dense(1)
        self.between = layers.BatchNormalization() if normalizes else layers.ReLU()

    def call(self, inputs, training=None):
        x = self.between(self.attention(inputs, inputs), training=training)
        return self.last(tf.reduce_mean(x, 1))

    def get_config(self):
        return {"normalizes": self.normalizes}


class Attention(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.parts = [layers.MultiHeadAttention(1, 3), layers.BatchNormalization()]

    def call(self, inputs, training=None):
        return self.parts[1](self.parts[0](inputs, inputs), training=training)


def attending(normalizes):
    model = Attending(normalizes)
    model(SEQUENCES[:1])
    return model


def attention_in_a_graph():
    inputs = keras.Input((5, 2))
    x = layers.Flatten()(Attention()(inputs))
    return keras.Model(inputs, layers.Dense(1)(x))


@each("make", [lambda: attending(True), lambda: attending(False), attention_in_a_graph])
def test_layers_that_stock_layers_make_in_build_are_converted(make):
    model = moved(make())
    for weight in model.trainable_weights:
        weight.assign_add(0.1 * np.ones(weight.shape))
    converted, report = convert_model(model, "frozen", public_rows=SEQUENCES)
    assert report.not_converted == ()
    assert not any(type(x) is layers.BatchNormalization for x in sublayers(converted))
    np.testing.assert_allclose(converted(SEQUENCES), model(SEQUENCES), rtol=1e-6, atol=1e-6)
    assert len(converted.trainable_weights) == len(model.trainable_weights)


class Late(keras.Model):
    def build(self, shape):
        self.norm = layers.BatchNormalization(name="late")
        super().build(shape)

    def call(self, inputs, training=None):
        return self.norm(inputs, training=training)

    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config):
        return cls()


def test_normalisation_made_in_build_is_rejected_in_one_line():
    model = Late(name="whole")
    model(X)
    with pytest.raises(ValueError, match="^Model 'whole' .*Late"):
        convert_model(model, "group")


class Own(layers.BatchNormalization):
    def call(self, inputs, training=None):
        return super().call(inputs, training=training)


def test_after_a_conversion_the_rejection_asks_for_a_converter():
    model = keras.Sequential([keras.Input((4,)), Own(name="own"), layers.Dense(1)])
    with pytest.raises(ValueError, match="register_converter.*convert="):
        private_with(model)
    with pytest.raises(ValueError, match="register_converter") as caught:
        private_with(model, convert="group")
    assert "convert=" not in str(caught.value) and "convert_model" not in str(caught.value)
