"""The graphs of the functions that an operation calls.

Private parts: `Graph._get_function`, the one way from the name of a function in an attribute, which
is what the runtime goes by, to its graph; and `function_def_to_graph`, which makes a graph of it
for inputs of given shapes. Functions made by `Defun`, as within `tf.nn.ctc_loss`, have a definition
and no graph.
"""

import contextlib
import weakref
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph


class NoGraph(LookupError):
    """The graph of a function could not be found."""


def function_graph(op, name):
    """Returns the `FuncGraph` of a function that `op` calls by name, or raises `NoGraph`."""
    return _graph_of(op, _function(op, name))


def _graph_of(op, function):
    graph = getattr(function, "graph", None)
    if graph is None or _has_grown(function, graph):
        graph = _of_definitions.get(function)
    if graph is None:
        with op.graph.as_default():  # where the functions that it calls are looked up
            graph = function_def_to_graph(function.definition)
        _of_definitions[function] = graph
    return graph


def _has_grown(function, graph):
    """Whether a gradient of the function has added outputs to its graph since it was defined."""
    definition = getattr(function, "cached_definition", None)
    return definition is not None and len(definition.signature.output_arg) != len(graph.outputs)


def shaped_graph(op, name, shapes):
    """Returns the `FuncGraph` of a function, with the static shapes that given inputs make in it.

    TensorFlow traces some functions, gradients among them, for inputs of any shape. `shapes` are
    the `tf.TensorShape`s of all inputs.
    """
    function = _function(op, name)
    graph = _graph_of(op, function)
    says_more = any(
        s.rank is not None and str(s) != str(x.shape) and not x.shape.is_fully_defined()
        for s, x in zip(shapes, graph.inputs, strict=True)
    )
    if not says_more or not hasattr(function, "cached_definition"):
        return graph
    definition = type(function.cached_definition)()
    definition.CopyFrom(function.cached_definition)
    for i in definition.arg_attr:
        definition.arg_attr[i].attr.pop("_output_shapes", None)  # they would be taken before ours
    pairs = zip(shapes, graph.inputs, strict=True)
    given = [s if x.dtype.is_numpy_compatible else None for s, x in pairs]
    with op.graph.as_default():  # where the functions that it calls are looked up
        shaped = function_def_to_graph(definition, input_shapes=given)
    for traced in graph.get_operations():
        with contextlib.suppress(KeyError):
            again = shaped.get_operation_by_name(traced.name)
            for known, tensor in zip(traced.outputs, again.outputs, strict=True):
                tensor.set_shape(known.shape)
    return shaped


def _function(op, name):
    graph = op.graph
    while graph is not None:
        function = graph._get_function(name)
        if function is not None:
            if not any(getattr(function, x, None) for x in ("graph", "definition")):
                break
            return function
        graph = getattr(graph, "outer_graph", None)
    raise NoGraph(f"the graph of function {name!r} is unknown")


def called_functions(op):
    """Returns the functions that an operation may call: dict of lists of names, by attribute."""
    if op.type not in _function_attributes:
        kinds = ("func", "list(func)")
        _function_attributes[op.type] = [a.name for a in op.op_def.attr if a.type in kinds]
    found = {}
    for attribute in _function_attributes[op.type]:
        value = op.get_attr(attribute)
        functions = value if isinstance(value, list) else [value]
        found[attribute] = [function.name for function in functions if function.name]
    return {attribute: names for attribute, names in found.items() if names}


def is_stateful(op):
    """Whether an operation may read or write what is not among its inputs and outputs."""
    if op.type not in _stateful:
        definition = op.op_def
        by_reference = any(argument.is_ref for argument in definition.input_arg)
        _stateful[op.type] = (
            definition.is_stateful or by_reference or op.type in _STATEFUL_ALL_THE_SAME
        )
    return _stateful[op.type]


class Leaf(NamedTuple):
    """An operation that calls no function, and the handles of the resources that it is given.

    A handle is the eager tensor that `variable.handle` is, or a tensor of the graph where it is not
    known of what it is.
    """

    op: tf.Operation
    handles: list


def leaf_operations(operations, given=None):
    """Yields the `Leaf`s of operations, those within called functions as well."""
    for op in operations:
        names = [name for names in called_functions(op).values() for name in names]
        inputs = list(op.inputs)[1:] if op.type in _CONDITION_FIRST else list(op.inputs)
        for name in names:
            graph = function_graph(op, name)
            inner = {
                id(inside): _outside(outside, given or {})
                for inside, outside in zip(graph.inputs, inputs, strict=False)
                if inside.dtype == tf.resource
            }
            yield from leaf_operations(graph.get_operations(), inner)
        if not names:
            yield Leaf(op, handles_of(op, given))


def handles_of(op, given=None):
    """Returns the handles of the resources that an operation is given; see `Leaf`.

    `given` says what inputs of its function stand for, by the id of a tensor.
    """
    return [_outside(t, given or {}) for t in op.inputs if t.dtype == tf.resource]


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


_CONDITION_FIRST = ("If", "StatelessIf", "Case", "StatelessCase")
# They call Python, which may remember what it saw, but say that they have no state.
_STATEFUL_ALL_THE_SAME = ("PyFuncStateless",)
_function_attributes = {}  # by type of operation
_stateful = {}  # by type of operation
# By function: a walk knows the graphs that it has seen by their identity.
_of_definitions = weakref.WeakKeyDictionary()
