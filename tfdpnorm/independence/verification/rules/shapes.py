"""Operations that give entries other places, and shapes themselves.

Lemma on reshaping. In row-major order entry f of a tensor with rows (axis, m, blocks) belongs to
example (f // d) mod P with d = m * (product of the sizes after the axis). Along axis b of the new
shape, with n the product of the sizes after it, the example depends on the place on b alone if n
divides d and m' P divides the size of b, where m' = d / n: then f // d = (f // n) // m', the sizes
before b add multiples of P to it, and place r belongs to example (r // m') mod P. For P > 1 there
is at most one such axis.
"""

import math

import numpy as np

from tfdpnorm.independence.verification.registry import rule
from tfdpnorm.independence.verification.verdicts import FREE, ListOf, Rows


@rule("Reshape")
def _reshape(node):
    rows = node.of_rows(0)
    before, after = node.shape(0), node.output_shape()
    if rows is None:
        return node.mixed("takes a shape that depends on examples")
    if before is None or after is None or None in (*before[rows.axis + 1 :], *after):
        after = _shape_of(node, before)
    if before is None or after is None or None in before[rows.axis + 1 :]:
        return node.mixed("has a shape that is not known")
    return reshaped(node, rows, before, after)


def reshaped(node, rows, before, after):
    """The verdict on rows whose entries keep their order in another shape.

    Of the shape `before`, sizes that follow the axis of the rows have to be known; `after`, all.
    """
    if 0 in after:
        return FREE
    distance = rows.per_example * math.prod(before[rows.axis + 1 :])
    for axis, size in enumerate(after):
        inner = math.prod(after[axis + 1 :])
        if distance % inner:
            continue
        per_example = distance // inner
        if size and size % (node.examples * per_example) == 0:
            return Rows(axis, per_example, size // (node.examples * per_example))
    return node.mixed(f"from {list(before)} to {list(after)} does not keep examples together")


def _shape_of(node, before):
    """The new shape as far as the constant that asks for it says it."""
    asked = node.constant(1)
    if asked is None or before is None or None in before:
        return None
    asked = [int(n) for n in asked]
    if -1 in asked:
        rest = math.prod(n for n in asked if n != -1)
        asked[asked.index(-1)] = math.prod(before) // rest
    return tuple(asked)


@rule("Transpose", "ConjugateTranspose")
def _transpose(node):
    rows, axes = node.of_rows(0), node.constant(1)
    if rows is None or axes is None:
        return node.mixed("has an order of axes that is not known")
    return rows.at([int(a) % len(axes) for a in axes].index(rows.axis))


@rule("ExpandDims")
def _expand_dims(node):
    rows, axis, rank = node.of_rows(0), node.constant(1), node.rank(0)
    if rows is None or axis is None or rank is None:
        return node.mixed("has an axis that is not known")
    return rows.at(rows.axis + (int(axis.reshape([])) % (rank + 1) <= rows.axis))


@rule("Squeeze")
def _squeeze(node):
    rows, shape = node.of_rows(0), node.shape(0)
    axes = list(node.attr("squeeze_dims"))
    if shape is None or (not axes and None in shape):
        return node.mixed("has a shape that is not known")
    axes = {a % len(shape) for a in axes} or {i for i, n in enumerate(shape) if n == 1}
    if rows.axis in axes:
        return node.mixed("removes the axis of the examples")
    return rows.at(rows.axis - sum(a < rows.axis for a in axes))


@rule("BroadcastTo")
def _broadcast_to(node):
    rows, ranks = node.of_rows(0), (node.rank(0), node.op.outputs[0].rank)
    if rows is None or None in ranks:
        return node.mixed("has a shape that is not known")
    return rows.at(rows.axis + ranks[1] - ranks[0])


@rule("Tile")
def _tile(node):
    rows, times = node.of_rows(0), node.constant(1)
    if rows is None or times is None:
        return node.mixed("is repeated a number of times that is not known")
    # Entry r of the result is entry r mod size: all examples, once more.
    return Rows(rows.axis, rows.per_example, rows.blocks * int(times[rows.axis]))


@rule("Shape", "ShapeN", "Size", "Rank")
def _shape(node):
    """The shape of a tensor that is free, or of rows, is free by definition."""
    if any(isinstance(v, ListOf) for v in node.verdicts):
        return node.mixed("is the size of a list")
    return FREE


rule("ZerosLike", "OnesLike")(
    lambda node: ListOf(FREE) if isinstance(node.verdicts[0], ListOf) else FREE
)
rule("Fill")(lambda node: node.mixed("has a shape or a value that depends on examples"))


@rule("SpaceToBatchND", "SpaceToBatch")
def _space_to_batch(node):
    """The places of a block come before the batch: all examples for each place."""
    rows = node.of_rows(0)
    if rows is None or rows.axis != 0 or node.op.type != "SpaceToBatchND":
        return node.mixed("moves the axis of the examples into another")
    block = node.constant(1)
    if block is None:
        return node.mixed("has a block that is not known")
    return Rows(0, rows.per_example, rows.blocks * int(np.prod(block)))


@rule("BatchToSpaceND")
def _batch_to_space(node):
    rows, block = node.of_rows(0), node.constant(1)
    if rows is None or rows.axis != 0 or block is None:
        return node.mixed("moves the axis of the examples into another")
    blocks, rest = divmod(rows.blocks, int(np.prod(block)))
    if rest:
        return node.meeting("takes the batch apart between examples")
    return Rows(0, rows.per_example, blocks)


@rule("SpaceToDepth", "DepthToSpace")
def _space_and_depth(node):
    rows = node.of_rows(0)
    return rows if rows.axis == 0 else node.mixed("moves the axis of the examples into another")
