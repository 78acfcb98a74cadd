"""What the rest of this library asks of Keras beside its public interface."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat import (
    devices,
    fit_loop,
    graphs,
    losses,
    models,
    normalization,
    precision,
    preprocessing,
    random_layers,
    wrappers,
)

X = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.head = keras.layers.Dense(2)

    def call(self, x):
        return self.head(x)


def sequential(*layers):
    return keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(2)])


def test_which_models_are_functional():
    deferred = keras.Sequential([keras.layers.Dense(2)])
    assert models.is_functional(sequential()) and not models.is_functional(deferred)
    assert models.is_made_of_layers(deferred)
    deferred(X)
    assert models.is_functional(deferred)
    for other in (Subclassed(), keras.layers.Dense(2), 3):
        assert not models.is_functional(other) and not models.is_made_of_layers(other)


def test_inputs_keep_their_structure():
    inputs = {"a": keras.Input((2,)), "b": keras.Input((3,))}
    model = keras.Model(inputs, keras.layers.Concatenate()([inputs["a"], inputs["b"]]))
    assert sorted(models.symbolic_inputs(model)) == ["a", "b"]
    assert models.symbolic_inputs(Subclassed()) is None


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16", "float64"])
def test_half_precision_is_recognised(policy):
    keras.mixed_precision.set_global_policy(policy)
    model = sequential()
    assert precision.computes_in_half(model) == (policy == "mixed_float16")
    kernel = model.layers[-1].kernel
    assert precision.is_cast_by_keras(kernel) == policy.startswith("mixed")
    stored = precision.as_stored(kernel)
    assert stored.dtype == ("float64" if policy == "float64" else "float32")
    layer = keras.layers.Layer()
    kept = layer.add_weight(name="kept", shape=(2,), **precision.no_autocast(layer.add_weight))
    assert not precision.is_cast_by_keras(kept)


def test_tensor_float_32_is_switched_off_once(monkeypatch):
    assert not devices.switch_off_tensor_float_32() or devices.has_gpu()
    switched = {"on": True}
    config = tf.config.experimental
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    monkeypatch.setattr(config, "tensor_float_32_execution_enabled", lambda: switched["on"])
    monkeypatch.setattr(
        config, "enable_tensor_float_32_execution", lambda on: switched.update(on=on)
    )
    assert devices.switch_off_tensor_float_32() and not switched["on"]
    assert not devices.switch_off_tensor_float_32()


def test_xla_is_noticed():
    seen = []

    def function(x):
        seen.append(devices.in_xla())
        return x

    tf.function(function)(1.0)
    tf.function(function, jit_compile=True)(1.0)
    assert [bool(x) for x in seen] == [False, True]


def test_added_losses_are_found_and_put_back():
    class Adding(keras.layers.Layer):
        def call(self, x):
            self.add_loss(tf.reduce_sum(x))
            return x

    model = Subclassed()
    model.head = Adding()
    with losses.losses_put_back([model.head]):
        model(X)
        assert losses.has_added_losses(model.head)
    assert not losses.has_added_losses(model.head)
    model(X)
    losses.clear_losses(model)
    assert not losses.has_added_losses(model.head)
    regular = keras.layers.Dense(2, kernel_regularizer="l2")
    regular(X)
    assert regular.losses and not losses.has_added_losses(regular)


@pytest.mark.parametrize("fails", [False, True])
def test_random_layers_repeat_themselves_for_a_while(fails):
    layer = keras.layers.Dropout(0.5)
    layer(X, training=True)
    before = dict(vars(layer._random_generator))
    try:
        with random_layers.repeating([layer, keras.layers.Dense(2)], "seed"):
            one, other = (layer(X, training=True).numpy() for _ in range(2))
            np.testing.assert_array_equal(one, other)
            if fails:
                raise RuntimeError("halfway")
    except RuntimeError:
        assert fails
    assert vars(layer._random_generator) == before
    one, other = (layer(np.ones([50, 50]), training=True).numpy() for _ in range(2))
    assert np.any(one != other)


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


def test_keras_infers_shapes_in_a_graph_of_its_own():
    seen = []

    class Asked(keras.layers.Layer):
        def call(self, x):
            seen.append(graphs.only_infers_shapes(graphs.current_graph()))
            return x

    Asked().compute_output_shape((None, 3))
    assert seen == [True]
    tf.function(Asked().call)(tf.ones([2]))
    assert seen == [True, False]


@pytest.mark.parametrize("fails", [False, True])
def test_optimisation_is_switched_on_again(fails):
    def is_off():
        options = tf.config.optimizer.get_experimental_options()
        return options.get("disable_meta_optimizer", False)

    assert not is_off()
    try:
        with graphs.unoptimized():
            assert is_off()
            if fails:
                raise RuntimeError("halfway")
    except RuntimeError:
        assert fails
    assert not is_off()


def test_every_batch_normalisation_is_known():
    kinds = (
        keras.layers.BatchNormalization,
        keras.layers.experimental.SyncBatchNormalization,
        tf.compat.v1.keras.layers.BatchNormalization,
    )
    assert all(issubclass(kind, normalization.BATCH_NORMALIZATIONS) for kind in kinds)
    assert not issubclass(keras.layers.LayerNormalization, normalization.BATCH_NORMALIZATIONS)


def test_a_given_vocabulary_is_told_from_a_learnt_one():
    given, learnt = keras.layers.StringLookup(vocabulary=["a"]), keras.layers.StringLookup()
    learnt.adapt(np.array(["a"]))
    assert preprocessing.has_given_vocabulary(given)
    assert not preprocessing.has_given_vocabulary(learnt)
    inner = preprocessing.inner_lookup(keras.layers.TextVectorization(vocabulary=["a"]))
    assert isinstance(inner, keras.layers.StringLookup)


def test_time_distributed_runs_all_steps_at_once():
    seen = []
    layer = keras.layers.TimeDistributed(keras.layers.Lambda(lambda x: seen.append(x.shape) or x))
    layer.build((2, 3, 4))
    for always in (False, True):
        layer._always_use_reshape = always
        del seen[:]
        with wrappers.all_steps_at_once(layer):
            layer(tf.ones([2, 3, 4]))
        assert seen[-1] == (6, 4) and layer._always_use_reshape == always


def test_positional_names_are_those_of_the_call():
    assert wrappers.positional_names(keras.layers.Dense(2))[0] == "inputs"
    lstm = wrappers.positional_names(keras.layers.LSTM(2))
    assert lstm[:3] == ["inputs", "initial_state", "constants"]


@pytest.mark.parametrize("asked", [None, 3])
def test_steps_per_execution(asked):
    model = sequential()
    assert fit_loop.steps_per_execution(model) == 1
    model.compile("sgd", "mse", steps_per_execution=asked)
    assert fit_loop.steps_per_execution(model) == (asked or 1)
    for count in {1, asked or 1}:
        with fit_loop.exchanged_steps_per_execution(model, count):
            assert fit_loop.steps_per_execution(model) == count
        with pytest.raises(RuntimeError), fit_loop.exchanged_steps_per_execution(model, count):
            raise RuntimeError("halfway")
        assert fit_loop.steps_per_execution(model) == (asked or 1)


def test_metrics_make_their_variables_once():
    model = sequential()
    model.compile("sgd", "mse", weighted_metrics=["accuracy"])
    targets = tf.TensorSpec([None, 2])
    for _ in range(2):
        fit_loop.make_metric_variables(model, model.output, targets)
        assert model.compiled_metrics.built
    several = keras.Model(model.input, [model.output, model.output])
    several.compile("sgd", "mse", weighted_metrics=["accuracy"])
    fit_loop.make_metric_variables(several, several.output, [targets, targets])
    assert not several.compiled_metrics.built
