"""Gradients of a layer's weights from the operations of its call, where no rule knows the layer.

Each gradient of a weight w passes an operation that joins what is computed from weights alone,
u = f(w), with what is computed from examples. The output z of that operation is watched. From
b = dloss/dz and the other operand, the type of the operation says what the gradient of u is made of
in each row, and the operations of f take it from there back to w.
"""

from typing import NamedTuple

import tensorflow as tf

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.contribution import (
    Instantiated,
    OuterSum,
    flat_positions,
    size,
)
from tfdpnorm.gradients.map_rows import map_rows
from tfdpnorm.gradients.rules.dense import einsum_gradients
from tfdpnorm.gradients.rules.embedding import LookupSum
from tfdpnorm.keras_compat.graphs import computed_from_arguments, current_graph

# Operands are broadcast, and each number of the output comes from one of each operand.
_ELEMENTWISE = {
    "Add": tf.add,
    "AddV2": tf.add,
    "BiasAdd": tf.add,
    "Maximum": tf.maximum,
    "Minimum": tf.minimum,
    "Mul": tf.multiply,
    "RealDiv": tf.divide,
    "SelectV2": tf.where,
    "SquaredDifference": tf.math.squared_difference,
    "Sub": tf.subtract,
}
_PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMulV3")
_LOOKUPS = ("GatherV2", "ResourceGather")
_WITHOUT_GRADIENT = ("StopGradient", "Shape", "ShapeN", "Size", "Rank")


class Join(NamedTuple):
    """An operation that joins weights and examples.

    Attributes:
        z: Its output, [rows, ...]; or the same numbers in another shape.
        operands: List of the tensors, [rows, ...], that the gradient of u depends on beside b.
        u: What is computed from weights alone: a tensor, or the handle of a variable.
        contribution: Function of b and the operands to the `Contribution` of u.
    """

    z: tf.Tensor
    operands: list
    u: tf.Tensor
    contribution: object


class Joins(NamedTuple):
    """The `Join`s of a call, a list, and the `Calculation` of their u's."""

    joins: list
    calculation: object

    def contributions(self, gradients):
        """Returns pairs (variable, `Contribution`), from the gradients of the z's, in order."""
        pairs = zip(self.joins, gradients, strict=True)
        parts = [(join.u, join.contribution(b, *join.operands)) for join, b in pairs]
        return [found for u, part in parts for found in self.calculation.back(u, part)]


class Calculation:
    """What a call computes from `variables` alone."""

    def __init__(self, variables):
        handles = {id(v.handle): v for v in variables}
        captures = getattr(current_graph(), "captures", ())
        handles |= {
            id(inside): handles[id(outside)]
            for outside, inside in captures
            if id(outside) in handles
        }
        self._handles, self._made = handles, set()

    def ends(self, operations, without):
        """Follows the operations of the call, in order, to those that read it beside examples.

        Tensors whose names are in `without` count as computed from examples. Returns a list of
        pairs (operation, place of the input that is computed from variables); None if an operation
        has several such inputs beside others, or is one that cannot be run again.
        """
        found = []
        read = {t.name: t for op in operations for t in op.inputs}
        of_examples = dict(zip(read, computed_from_arguments(list(read.values())), strict=True))
        of_examples |= dict.fromkeys(without, True)
        for op in operations:
            places = [i for i, t in enumerate(op.inputs) if self.has(t)]
            outputs = [t for t in op.outputs if _may_have_gradient(t)]
            if not places or not outputs or op.type in _WITHOUT_GRADIENT:
                continue
            joins = any(of_examples[t.name] for i, t in enumerate(op.inputs) if i not in places)
            # A lookup in a variable gives no gradient of a tensor to take back.
            is_dead_end = op.type == "ResourceGather" and not joins
            if (joins and len(places) > 1) or not _is_plain(op) or is_dead_end:
                return None
            if joins:
                found.append((op, places[0]))
            else:
                self._made |= {t.name for t in outputs if t.name not in without}
        return found

    def has(self, tensor):
        """Whether a tensor is computed from the variables alone, or is the handle of one."""
        return id(tensor) in self._handles or tensor.name in self._made

    def value(self, u):
        """The variable of a handle, or the tensor itself."""
        return self._handles.get(id(u), u)

    def back(self, u, part):
        """Returns pairs (variable, `Contribution`), from the `Contribution` of what they make."""
        found, waiting = [], [(u, part)]
        while waiting:
            u, part = waiting.pop()
            if id(u) in self._handles:
                found.append((self._handles[id(u)], part))
                continue
            places = [i for i, t in enumerate(u.op.inputs) if self.has(t)]
            waiting += [(u.op.inputs[i], _through(u, i, part)) for i in places]
        return found


def _may_have_gradient(t):
    return not (t.dtype.is_integer or t.dtype.is_bool or t.dtype == tf.string)


def _is_plain(op):
    """Whether an operation has the gradient of its type, and can be run again."""
    if any(x.type == "func" for x in op.op_def.attr) or "_gradient_op_type" in op.node_def.attr:
        return False
    is_read = op.type in ("ReadVariableOp", "ResourceGather")
    of_numbers = all(t.dtype.is_floating for t in op.outputs if _may_have_gradient(t))
    return of_numbers and (is_read or not op.op_def.is_stateful)


def joins_of_call(variables, first, arguments, outputs):
    """Returns the `Joins` of a layer's call.

    The call made the operations of the graph from number `first` on; `arguments` and `outputs` are
    structures. None for calls that joins do not describe.
    """
    given = [t for t in tf.nest.flatten(arguments) if tf.is_tensor(t) and t.shape.rank]
    if tf.executing_eagerly() or not given:
        return None
    rows, operations = given[0].shape[0], current_graph().get_operations()[first:]
    returned = [t for t in tf.nest.flatten(outputs) if tf.is_tensor(t)]
    copies = {}  # what has a copy of a weight for each row
    while True:
        calculation = Calculation(variables)
        ends = calculation.ends(operations, copies)
        if ends is None:
            return None
        joins = [_join(op, place, rows, calculation) for op, place in ends]
        left = [op.inputs[i] for (op, i), join in zip(ends, joins, strict=True) if join is None]
        left += [t for t in returned if calculation.has(t)]
        if not left:
            return Joins([*joins, *map(_join_of_copies, copies.values())], calculation)
        if not all(_is_copied(t, rows) for t in left):
            return None
        copies |= {t.name: t for t in left}


def _join(op, place, rows, calculation):
    """The `Join` of an operation whose input at `place` is computed from weights; or None."""
    z, u = op.outputs[0], op.inputs[place]
    others = [t for i, t in enumerate(op.inputs) if i != place]
    if any(t.shape.rank is None for t in (z, *others)):
        return None
    if op.type in _ELEMENTWISE:
        return _elementwise(op, place, rows)
    if op.type in _LOOKUPS and place == 0:
        return _lookup(op, rows, calculation)
    if op.type == "Einsum" and len(others) == 1:
        return _einsum(op, place, rows)
    if op.type in _PRODUCTS and u.shape.rank == 2:
        return _product(op, place, rows)
    return None


# --- element by element ---


def _elementwise(op, place, rows):
    z, u = op.outputs[0], op.inputs[place]
    while u.op.type == "BroadcastTo":  # which the operation would do by itself
        u = u.op.inputs[0]
    others = [t for i, t in enumerate(op.inputs) if i != place]
    is_apart = z.shape[0] == rows and (u.shape.rank < z.shape.rank or u.shape[0] == 1)
    if not is_apart or any(t.shape.rank not in (0, z.shape.rank) for t in others):
        return None
    if op.type == "BiasAdd" and op.get_attr("data_format") != b"NHWC":
        return None
    function = _ELEMENTWISE[op.type]
    return Join(z, others, u, lambda b, *x: _of_copies(function, place, u, b, x))


def _of_copies(function, place, u, b, others):
    """The gradient of u, of which each row gets a copy to compute with."""
    b = widened(b)
    rows, ones = size(b, 0), b.shape.rank - 1 - u.shape.rank
    of_row = [1] * ones + list(u.shape) if ones >= 0 else u.shape[1:]
    copies = tf.broadcast_to(tf.cast(tf.reshape(u, [1, *of_row]), b.dtype), [rows, *of_row])
    operands = [tf.cast(t, b.dtype) if t.dtype.is_floating else t for t in others]
    operands.insert(place, copies)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(copies)
        outputs = function(*operands)
    (found,) = tape.gradient(outputs, [copies], output_gradients=[b])
    return Instantiated(tf.reshape(found, [-1, *u.shape]))


# --- copies ---


def _is_copied(t, rows):
    """Whether `t` has a copy of something for each row."""
    source = t.op.inputs[0] if t.op.type in ("BroadcastTo", "Tile") else None
    if source is None or not t.shape[1:].is_fully_defined() or t.shape[0] != rows:
        return False
    return source.shape.rank < t.shape.rank or (source.shape[0] == 1 and rows != 1)


def _join_of_copies(z):
    u = z.op.inputs[0]

    def contribution(b):
        def copied(copies):
            if z.op.type == "BroadcastTo":
                return tf.broadcast_to(copies, [size(copies, 0), *z.shape[1:]])
            return tf.tile(copies, [1, *(z.shape[i] // u.shape[i] for i in range(1, len(z.shape)))])

        return _of_copies(copied, 0, u, b, ())

    return Join(z, [], u, contribution)


# --- lookups and products ---


def _lookup(op, rows, calculation):
    z, ids, u = op.outputs[0], op.inputs[1], op.inputs[0]
    axis = 0 if op.type == "ResourceGather" else tf.get_static_value(op.inputs[2])
    table = calculation.value(u).shape
    if axis != 0 or op.get_attr("batch_dims") or table.rank != 2 or z.shape[0] != rows:
        return None

    def contribution(b, ids):
        count = size(ids, 0)
        return LookupSum(tf.reshape(ids, [count, -1]), tf.reshape(b, [count, -1, table[1]]), table)

    return Join(z, [ids], u, contribution)


def _einsum(op, place, rows):
    z, u, x = op.outputs[0], op.inputs[place], op.inputs[1 - place]
    given, made = op.get_attr("equation").decode().split("->")
    given = given.split(",")
    letters = given[1 - place], given[place], made
    distinct = all(len(set(each)) == len(each) for each in letters)
    stays = letters[0][0] == made[0] and made[0] not in letters[1]
    if "." in made or not distinct or not stays or not z.shape[0] == x.shape[0] == rows:
        return None
    return Join(z, [x], u, lambda b, x: einsum_gradients(letters, x, b, u.shape))


def _product(op, place, rows):
    """x u or u x, with x of [rows, ..., n, m], or of [rows * positions, m] between two reshapes."""
    z, u, x = op.outputs[0], op.inputs[place], op.inputs[1 - place]
    flags = ("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y")
    of_u, of_x = (op.get_attr(flags[i]) for i in (place, 1 - place))
    if of_x:
        return None
    widths = x.shape[-1], z.shape[-1]
    is_folded = x.shape.rank == 2 and place == 1 and _is_folded(x, z, rows)
    if is_folded:
        z, x = z.consumers()[0].outputs[0], x.op.inputs[0]
    if z.shape[0] != rows or x.shape[0] != rows or (place == 0 and x.shape.rank < 3):
        return None

    def contribution(b, x):
        if place == 0:  # its columns are the positions
            x, b = (tf.linalg.matrix_transpose(t) for t in (x, b))
        if is_folded:
            x, b = (tf.reshape(t, [size(t, 0), -1, n]) for t, n in zip((x, b), widths, strict=True))
        elif x.shape.rank > 2:
            x, b = map(flat_positions, (x, b))
        # u is [inputs, outputs] to the right of x, and the other way round to its left.
        return OuterSum(*((b, x) if of_u == (place == 1) else (x, b)), u.shape)

    return Join(z, [x], u, contribution)


def _is_folded(x, z, rows):
    """Whether a matrix is [rows, ...] in another shape, and what is made of it is so again."""
    readers = z.consumers()
    if x.op.type != "Reshape" or [reader.type for reader in readers] != ["Reshape"]:
        return False
    before, after = x.op.inputs[0].shape, readers[0].outputs[0].shape
    if not before.rank or not after.rank or before[1:].num_elements() is None:
        return False
    return before[0] == after[0] == rows and before[1:].num_elements() % x.shape[-1] == 0


# --- from u back to weights ---


def _through(u, place, part):
    """The `Contribution` of an input of the operation that gives u, from that of u."""
    op = u.op
    others = [t for i, t in enumerate(op.inputs) if i != place]
    if op.type in ("ReadVariableOp", "Cast", "Identity"):
        return part
    if op.type in ("Add", "AddV2") and op.inputs[place].shape == u.shape:
        return part
    if op.type == "Neg":
        return part.scaled(-1.0)
    if op.type == "Mul" and others[0].shape.rank == 0:
        return part.scaled(others[0])
    if op.type == "MatMul" and not (op.get_attr("transpose_a") or op.get_attr("transpose_b")):
        return part.of_factor(place, others[0])
    if op.type == "Transpose" and isinstance(part, OuterSum) and u.shape.rank == 2:
        return part.transposed()
    gradients = part.instantiated()
    return Instantiated(map_rows(lambda row: _differentiated(u, place, row[0]), (gradients,)))


def _differentiated(u, place, b):
    """The gradient of one input of the operation that gives u, which is run once more for it."""
    graph, op = current_graph(), u.op
    inputs = [tf.identity(t) if i == place else t for i, t in enumerate(op.inputs)]
    attributes = {k: v for k, v in op.node_def.attr.items() if not k.startswith("_")}
    dtypes = [t.dtype for t in op.outputs]
    again = graph.create_op(op.type, inputs, dtypes, attrs=attributes, op_def=op.op_def)
    output = again.outputs[u.value_index]
    (found,) = tf.gradients(
        output,
        [inputs[place]],
        grad_ys=[tf.cast(b, u.dtype)],
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    return tf.convert_to_tensor(found)
