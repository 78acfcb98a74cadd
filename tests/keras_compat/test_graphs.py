"""What operations of a graph read, and what a traced function holds."""

import tensorflow as tf

from tfdpnorm.keras_compat import graphs


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
