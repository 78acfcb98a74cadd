"""Which variables the operations of a graph change, in the functions that they call, too."""

import tensorflow as tf

from tfdpnorm.audit.row_independence.proof.walk import may_change_state
from tfdpnorm.keras_compat.functions import called_functions, function_graph
from tfdpnorm.keras_compat.graphs import current_graph

_CONDITION_FIRST = ("If", "StatelessIf", "Case", "StatelessCase")


def changed_by(operations):
    """Returns pairs of an operation and the handle of a variable that it changes.

    Args:
        operations: `tf.Operation`s of a graph that is being traced.

    Returns:
        List of pairs (operation, handle): the handle is the eager tensor that
        `variable.handle` is, or a tensor of the graph where it is not known which variable it is.
    """
    return _changed(operations, {})


def _changed(operations, given):
    found = []
    for op in operations:
        names = called_functions(op)
        inputs = list(op.inputs)[1:] if op.type in _CONDITION_FIRST else list(op.inputs)
        for name in names:
            graph = function_graph(op, name)
            inner = {
                id(inside): _outside(outside, given)
                for inside, outside in zip(graph.inputs, inputs, strict=False)
                if inside.dtype == tf.resource
            }
            found += _changed(graph.get_operations(), inner)
        if not names and may_change_state(op):
            found += [(op, handle) for handle in _handles(op, given)]
    return found


def _handles(op, given):
    """The variables, and other resources, that an operation is given."""
    return [_outside(t, given) for t in op.inputs if t.dtype == tf.resource]


def _outside(tensor, given):
    """The tensor that one of a graph stands for, as far out as that is known."""
    while tf.is_symbolic_tensor(tensor):
        if id(tensor) in given:
            return given[id(tensor)]
        captures = getattr(tensor.graph, "captures", ())
        captured = {id(inside): outside for outside, inside in captures}
        if id(tensor) in captured:
            tensor = captured[id(tensor)]
        elif tensor.op.type == "Identity":
            tensor = tensor.op.inputs[0]
        else:
            break
    return tensor


def readers_before(handles, count):
    """Returns the operations of the graph that is traced that use variables before others.

    Args:
        handles: Handles of variables, eager tensors.
        count: Only those are returned that the graph had when it had so many.
    """
    wanted = {id(handle) for handle in handles}
    early = current_graph().get_operations()[:count]
    return [op for op in early if any(id(handle) in wanted for handle in _handles(op, {}))]
