"""What is found inside a model, and models cut in two: as much as possible below the cut."""

import collections

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

from tests.each import each
from tfdpnorm.keras_compat import models
from tfdpnorm.keras_compat.models import cut_in_two, modules_inside
from tfdpnorm.keras_compat.variables import KERAS_3, trainable_variables

Pair = collections.namedtuple("Pair", "one other")


class Holding(keras.Model):
    """Holds modules in every way that TensorFlow finds, some of them twice or in a circle."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)
        self.metric = keras.metrics.Mean()
        self.plain = tf.Module()
        self.plain.inner = [keras.metrics.Mean(), {"deep": tf.Module()}]
        self.in_list = [keras.layers.Dense(2), self.dense]
        self.in_tuple = (tf.Module(), Pair(keras.metrics.Mean(), tf.Module()))
        self.in_dict = {"a": keras.metrics.Mean(), "b": [tf.Module()]}
        self.plain.back = self

    def call(self, x):
        return self.dense(x)


def test_all_modules_are_found_once():
    model = Holding()
    model.compile("sgd", "mse", metrics=["mae"])
    model.fit(tf.ones([4, 3]), tf.ones([4, 2]), verbose=0)
    found = [id(x) for x in modules_inside(model)]
    assert len(found) == len(set(found)) and id(model) not in found
    if not KERAS_3:  # whose models are no modules
        assert {id(x) for x in model.submodules} - {id(model)} <= set(found)
    assert len(found) >= 11


def test_keys_need_no_order():
    holder, inner = tf.Module(), tf.Module()
    holder.held = {"a": 1, 2: inner}
    assert modules_inside(holder) == [inner]
    recurrent = keras.Sequential([keras.layers.GRU(2, recurrent_dropout=0.5)])
    for _ in range(2):
        tf.function(lambda x: recurrent(x, training=True))(tf.ones([2, 3, 4]))
    assert recurrent.layers[0].cell in modules_inside(recurrent)


X = np.random.default_rng(0).normal(size=(3, 8, 8, 3)).astype(np.float32)


def residual():
    """A stem, a block with a path around it, and an end."""
    inputs = keras.Input((8, 8, 3))
    x = layers.Conv2D(4, 3, padding="same", name="stem")(inputs)
    y = layers.Conv2D(4, 3, padding="same", name="inside")(layers.ReLU(name="relu")(x))
    y = layers.BatchNormalization(name="norm")(y)
    x = layers.Add(name="sum")([x, y])
    x = layers.Conv2D(5, 1, name="late")(x)
    return keras.Model(inputs, layers.GlobalAveragePooling2D(name="pool")(x), name="residual")


def around(inner, **options):
    """A model that calls another one, with layers before and after."""
    inputs = keras.Input((8, 8, 3))
    x = layers.Rescaling(0.5, name="scaled")(inputs)
    x = inner(x, **options)
    return keras.Model(inputs, layers.Dense(2, name="end")(x), name="around")


def cut(model, *names):
    found = cut_in_two(model, lambda layer: layer.name in names)
    below, above = found
    expected = model(X).numpy()
    np.testing.assert_allclose(above(below(X)), expected, rtol=1e-5, atol=1e-6)
    return below, above


@each(
    "above, last_below",
    [
        (["late"], "sum"),
        (["pool"], "late"),
        (["norm"], "stem"),  # the path around the block is needed too
    ],
)
def test_the_cut_lies_as_late_as_one_tensor_allows(above, last_below):
    below, _ = cut(residual(), *above)
    assert below.layers[-1].name == last_below


def test_both_share_their_layers_with_the_model():
    model = residual()
    below, above = cut(model, "late")
    assert below.get_layer("stem") is model.get_layer("stem")
    assert above.get_layer("late") is model.get_layer("late")
    assert not {id(w) for w in below.weights} & {id(w) for w in above.weights}
    assert len(below.weights) + len(above.weights) == len(model.weights)


def test_where_nothing_is_below_there_is_no_cut():
    assert cut_in_two(residual(), lambda layer: layer.name == "stem") is None
    assert cut_in_two(around(residual()), lambda layer: layer.name == "scaled") is None


def layers_with_weights(model):
    return {layer.name for layer in models.weight_owners(model)}


def test_a_model_within_is_cut_too():
    below, above = cut(around(residual()), "late")
    assert below.output_shape == (None, 8, 8, 4)
    assert layers_with_weights(above) == {"late", "end"}
    below, above = cut(around(residual()), "end")
    assert below.output_shape == (None, 5)
    # The cut is before it where its first layer is above.
    below, _ = cut(around(residual()), "stem")
    assert below.layers[-1].name == "scaled"


def test_a_model_within_keeps_the_mode_it_is_called_in():
    inner = residual()
    norm = inner.get_layer("norm")
    norm.moving_mean.assign([5.0, 4.0, 3.0, 2.0])
    model = around(inner, training=False)
    _, above = cut_in_two(model, lambda layer: layer.name == "norm")
    below = cut_in_two(model, lambda layer: layer.name == "norm")[0](X)
    np.testing.assert_allclose(above(below, training=True), model(X, training=True), rtol=1e-5)


def test_a_layer_with_weights_stays_on_one_side():
    inputs = keras.Input((8, 8, 3))
    twice, relu = layers.Conv2D(3, 1, name="twice"), layers.ReLU(name="relu")
    x = relu(twice(relu(twice(inputs))))
    model = keras.Model(inputs, layers.Conv2D(2, 1, name="end")(x))
    below, above = cut(model, "end")
    assert len(below.weights) == 2 and len(above.weights) == 2
    assert cut_in_two(model, lambda layer: layer.name == "twice") is None


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.head = keras.layers.Dense(2)

    def call(self, x):
        return self.head(x)


def stack(*layers):
    return keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(2)])


def test_which_models_are_functional():
    deferred = keras.Sequential([keras.layers.Dense(2)])
    assert models.is_functional(stack()) and not models.is_functional(deferred)
    assert models.is_made_of_layers(deferred)
    deferred(X[:, 0, 0])
    assert models.is_functional(deferred)
    for other in (Subclassed(), keras.layers.Dense(2), 3):
        assert not models.is_functional(other) and not models.is_made_of_layers(other)


def test_inputs_keep_their_structure():
    inputs = {"a": keras.Input((2,)), "b": keras.Input((3,))}
    model = keras.Model(inputs, keras.layers.Concatenate()([inputs["a"], inputs["b"]]))
    assert sorted(models.symbolic_inputs(model)) == ["a", "b"]
    assert models.symbolic_inputs(Subclassed()) is None


@pytest.mark.keras_3_only("variables are on the tape whenever they are switched on")
def test_a_variable_that_was_switched_on_later_is_rejected():
    model = stack(keras.layers.Dense(3))
    kernel = model.layers[0].kernel
    kernel.trainable = False
    kernel.trainable = True  # made as trainable
    assert len(trainable_variables(model)) == len(model.trainable_variables)
    model.layers[0]._tracker.unlock()
    late = model.layers[0].add_weight(name="late", shape=(), trainable=False)
    assert len(trainable_variables(model)) == len(model.trainable_variables)
    late.trainable = True
    with pytest.raises(
        ValueError, match="late.* was created with trainable=False and made trainable later"
    ):
        trainable_variables(model)
