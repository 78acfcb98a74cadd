"""Traced graphs as plain data: see `tfdpnorm.plain_graph`.

The one place where the verifier meets TensorFlow. The functions that an operation calls come with
the shapes that its inputs have at the call, where these say more than those of the trace.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfdpnorm.keras_compat.functions import (
    NoGraph,
    called_functions,
    function_graph,
    is_stateful,
    shaped_graph,
)
from tfdpnorm.plain_graph import Graph, Operation, Tensor

_READ = ("int", "bool", "string", "list(int)", "list(bool)", "list(string)")
_LARGEST_CONSTANT = 4096  # entries; larger ones are data
# Which of the inputs a function gets, by the type of the operation that calls it.
_FIRST_INPUT = {
    "PartitionedCall": 0,
    "StatefulPartitionedCall": 0,
    "If": 1,
    "StatelessIf": 1,
    "Case": 1,
    "StatelessCase": 1,
}


class PlainGraph(NamedTuple):
    """A `Graph`, and where the tensors of TensorFlow's are in it."""

    graph: Graph
    operations: dict

    def tensor(self, tensor):
        """The `Tensor` that stands for one of TensorFlow's graph."""
        return self.operations[tensor.op.name].outputs[tensor.value_index]


def plain_graph(graph):
    """Returns the `PlainGraph` of a `FuncGraph`, with all functions that it calls."""
    return _Conversion().of(graph)


class _Conversion:
    """Makes each function's graph once for each shape of its inputs."""

    def __init__(self):
        self._made = {}

    def of(self, graph):
        operations = graph.get_operations()
        made = {op.name: _without_inputs(op) for op in operations}
        for op in operations:
            plain = made[op.name]
            plain.inputs = [made[x.op.name].outputs[x.value_index] for x in op.inputs]
            for attribute, names in called_functions(op).items():
                for i, name in enumerate(names):
                    key = attribute if len(names) == 1 else f"{attribute}[{i}]"
                    plain.functions[key] = self._called(op, name)
        inputs, outputs = (
            [made[x.op.name].outputs[x.value_index] for x in tensors]
            for tensors in (getattr(graph, "inputs", ()), getattr(graph, "outputs", ()))
        )
        return PlainGraph(Graph(list(made.values()), inputs, outputs), made)

    def _called(self, op, name):
        first = _FIRST_INPUT.get(op.type)
        shapes = None if first is None else [x.shape for x in op.inputs[first:]]
        try:
            graph = function_graph(op, name)
            key = id(graph), None if shapes is None else tuple(map(str, shapes))
            if key not in self._made:
                self._made[key] = None  # for functions that call themselves
                if shapes is not None:
                    graph = shaped_graph(op, name, shapes)
                self._made[key] = self.of(graph)
        except NoGraph:
            return None
        return self._made[key] and self._made[key].graph


def _without_inputs(op):
    if op.type not in _kinds:
        definition, stateful = op.op_def, is_stateful(op)
        names = [argument.name for argument in definition.input_arg]
        _kinds[op.type] = _Kind(
            [a.name for a in definition.attr if a.type in _READ],
            tuple(names) if stateful else (),
            stateful,
        )
    kind = _kinds[op.type]
    plain = Operation(
        op.type,
        op.name,
        {name: _readable(op.get_attr(name)) for name in kind.attributes},
        kind.arguments,
        kind.is_stateful,
    )
    plain.outputs = [
        Tensor(plain, i, x.dtype.name, None if x.shape.rank is None else tuple(x.shape.as_list()))
        for i, x in enumerate(op.outputs)
    ]
    if op.type == "Const":
        (value,) = op.outputs
        if (value.dtype.is_integer or value.dtype.is_bool) and (
            value.shape.num_elements() <= _LARGEST_CONSTANT
        ):
            plain.attributes["value"] = np.asarray(tf.get_static_value(value))
    return plain


class _Kind(NamedTuple):
    """What all operations of one type have in common."""

    attributes: list
    arguments: tuple
    is_stateful: bool


_kinds = {}


def _readable(value):
    if isinstance(value, list):
        return [_readable(v) for v in value]
    return value.decode(errors="replace") if isinstance(value, bytes) else value
