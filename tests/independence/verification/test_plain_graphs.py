"""Plain graphs of traced functions: what the verifier gets to see of them."""

import numpy as np
import tensorflow as tf

from tests.each import each
from tests.independence.verification.perturbation import P, spec, traced
from tfdpnorm.keras_compat.plain_graphs import plain_graph


def plain(function, *specs):
    return plain_graph(traced(function, specs).graph)


def operations(graph, op_type):
    return [op for op in graph.inside() if op.type == op_type]


def test_operations_types_and_shapes_are_those_of_tensorflow():
    concrete = traced(lambda x, y: tf.nn.relu(x) @ y, [spec(4), tf.TensorSpec([4, 2])])
    graph = plain_graph(concrete.graph).graph
    ours = [(op.type, op.name, [t.shape for t in op.outputs]) for op in graph.operations]
    assert ours == [
        (op.type, op.name, [tuple(t.shape) for t in op.outputs])
        for op in concrete.graph.get_operations()
    ]
    assert [t.shape for t in (*graph.inputs, *graph.outputs)] == [(P, 4), (4, 2), (P, 2)]
    (product,) = operations(graph, "MatMul")
    assert product.attributes["transpose_a"] is False
    assert [t.op.type for t in product.inputs] == ["Relu", "Placeholder"]


def test_small_constants_of_integers_have_their_values_and_no_others():
    graph = plain(
        lambda x: (tf.reshape(x, [2, -1]), x + [0.5, 1.5], x + tf.cast(tf.range(5000)[0], x.dtype)),
        spec(2),
    ).graph
    values = [op.attributes.get("value") for op in operations(graph, "Const")]
    assert any(v is not None and np.array_equal(v, [2, -1]) for v in values)
    assert all(v is None or (v.dtype.kind in "iub" and v.size <= 4096) for v in values)


def test_functions_have_the_shapes_of_each_call():
    inner = tf.function(lambda x: x + 1.0).get_concrete_function(tf.TensorSpec([None, None]))
    graph = plain(lambda x, y: (inner(x), inner(y)), spec(4), spec(7)).graph
    calls = [op for op in graph.operations if op.functions]
    assert [c.functions["f"].outputs[0].shape for c in calls] == [(P, 4), (P, 7)]


def test_a_function_that_is_called_twice_in_one_shape_is_one_graph():
    inner = tf.function(lambda x: x + 1.0).get_concrete_function(tf.TensorSpec([None, None]))
    graph = plain(lambda x: inner(inner(x)), spec(4)).graph
    assert len({id(op.functions["f"]) for op in graph.operations if op.functions}) == 1


def test_a_function_that_was_differentiated_is_the_one_that_runs():
    """Its graph then has further outputs, for its gradient; with Mish, in all of ResNet-9."""
    inner = tf.function(lambda x: x * tf.tanh(x) * tf.exp(x), jit_compile=True)

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = inner(x)
        return tape.gradient(y, x)

    concrete = traced(inner, [spec(4)])
    tf.function(gradient).get_concrete_function(spec(4))
    (call,) = [op for op in plain_graph(concrete.graph).graph.operations if op.functions]
    assert len(call.functions["f"].outputs) == len(call.outputs) == 1


@each("draw, stateful", [(tf.random.normal, True), (lambda s: tf.zeros(s), False)])
def test_state_is_told(draw, stateful):
    graph = plain(lambda x: x + draw(tf.shape(x)), spec(4)).graph
    assert any(op.is_stateful for op in graph.operations) == stateful


def test_branches_come_by_their_attributes():
    def branches(x):
        return tf.switch_case(tf.cast(x[0, 0], tf.int32), [lambda: x, lambda: x + 1.0, lambda: -x])

    (case,) = operations(plain(branches, spec(4)).graph, "StatelessCase")
    assert list(case.functions) == ["branches[0]", "branches[1]", "branches[2]"]
    graph = plain(lambda x: tf.cond(x[0, 0] > 0, lambda: x, lambda: -x), spec(4)).graph
    (condition,) = operations(graph, "StatelessIf")
    assert [op.type for op in condition.functions["else_branch"].operations].count("Neg") == 1
