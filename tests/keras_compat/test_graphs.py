"""What operations of a graph read, and what a traced function holds."""

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.keras_compat import graphs
from tfdpnorm.keras_compat.graphs import operation_count, read_since


def names_read(compute):
    """The names of what `compute(x)` reads besides x, in a graph where x has been squared."""
    found = []

    @tf.function(autograph=False)
    def traced(x):
        squared = tf.square(x, name="squared")
        count = operation_count()
        compute(x, squared)
        found.extend(t.name for t in read_since(count, {"x": x}))
        return x

    traced.get_concrete_function(tf.TensorSpec([4, 2]))
    return found


def in_a_function(x, squared):
    tf.function(lambda: squared[:1] + x[:1], autograph=False)()


def in_a_loop(x, squared):
    tf.map_fn(lambda row: row + squared[0], x)


@each("compute", [lambda x, s: x + s, in_a_function, in_a_loop])
def test_a_tensor_from_before_is_read(compute):
    assert "squared:0" in names_read(compute)


@each("entered_before", [False, True])
def test_one_from_outside_of_the_function_is_read(entered_before):
    found = []

    @tf.function(autograph=False)
    def outer(x):
        squared = tf.square(x, name="squared")

        @tf.function(autograph=False)
        def inner():
            if entered_before:
                tf.identity(squared)
            count = operation_count()
            squared[:1] + x[:1]
            found.extend(t.name for t in read_since(count, [x]))

        inner()
        return x

    outer.get_concrete_function(tf.TensorSpec([4, 2]))
    assert found and set(found) == {"squared:0"}


def test_arguments_constants_and_variables_are_not_counted():
    variable, table = tf.Variable(tf.ones([2])), tf.ones([2])
    assert names_read(lambda x, _: x * variable + table + tf.constant(2.0)) == []
    assert read_since(0, []) == []  # outside of any graph


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

    keras.Model(inputs := keras.Input((3,)), Asked()(inputs))
    assert seen == [True]
    tf.function(Asked().call)(tf.ones([2]))
    assert seen == [True, False]


def runs_as_traced():
    return tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer", False)


def test_optimisation_is_switched_on_again():
    assert not runs_as_traced()
    with pytest.raises(RuntimeError), graphs.unoptimized():
        assert runs_as_traced()
        raise RuntimeError("halfway")
    assert not runs_as_traced()
