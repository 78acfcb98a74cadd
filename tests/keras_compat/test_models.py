"""What is found inside models, layers and graphs; models cut in two, as late as possible."""

import collections

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

from tests.each import each
from tfdpnorm.keras_compat import graphs, models
from tfdpnorm.keras_compat.layers import BATCH_NORMALIZATIONS
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


def stack(*layers):
    return keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(2)])


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


def test_every_batch_normalisation_is_known():
    kinds = [keras.layers.BatchNormalization]
    if not KERAS_3:
        kinds.append(keras.layers.experimental.SyncBatchNormalization)
        kinds.append(tf.compat.v1.keras.layers.BatchNormalization)
    assert all(issubclass(kind, BATCH_NORMALIZATIONS) for kind in kinds)
    assert not issubclass(keras.layers.LayerNormalization, BATCH_NORMALIZATIONS)


def test_captured_variables_are_all_and_no_tables():
    variable, other = tf.Variable(1.0), tf.Variable([1, 2])
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a"], [1]), default_value=0
    )

    @tf.function
    def function(x):
        other.assign_add([1, 1])
        return x * variable + tf.cast(table.lookup(tf.constant("a")), tf.float32)

    found = graphs.captured_variables(function.get_concrete_function(2.0))
    assert sorted(kind.name for _, kind in found) == ["float32", "int32"]
    assert {id(handle) for handle, _ in found} == {id(variable.handle), id(other.handle)}
