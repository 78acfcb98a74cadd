"""Parts of tensors, and tensors put together from parts.

Lemma. The operations copy entries to other places. Off the axis of the examples nothing else
matters, as long as the places are free. Along it, entry r belongs to example (r // m) mod P, so
that a shift by a multiple of m P, the period, leaves it with its example: parts that begin and end
at multiples of the period keep the examples in order, and so do such parts put one after another.
"""

import numpy as np

from tfdpnorm.independence.verification.registry import rule
from tfdpnorm.independence.verification.verdicts import FREE, ListOf, Rows

_PARTS = "takes a part of the axis of the examples"


def part(node, rows, begin, size):
    """The verdict on entries `begin` to `begin + size` of the axis of the examples."""
    period = rows.period(node.examples)
    if begin % period or size % period or size == 0:
        return node.meeting(_PARTS)
    return Rows(rows.axis, rows.per_example, size // period)


def common(node, inputs):
    """The `Rows` that all inputs of these numbers have, free ones aside; None if they differ."""
    found = {v for v in (node.verdicts[i] for i in inputs) if v != FREE}
    if len(found) != 1 or isinstance(next(iter(found)), ListOf):
        return None
    return found.pop()


@rule("Slice")
def _slice(node):
    rows, begin, sizes = node.of_rows(0), node.constant(1), node.constant(2)
    if rows is None:
        return node.mixed("takes a part that depends on examples")
    whole = rows.size(node.examples)
    if begin is None or sizes is None:
        # Free places elsewhere do no harm; what is taken here has to be known.
        after = node.output_shape()
        if after is not None and after[rows.axis] == whole:
            return rows
        return node.meeting(_PARTS)
    first, size = int(begin[rows.axis]), int(sizes[rows.axis])
    return part(node, rows, first, whole - first if size < 0 else size)


@rule("StridedSlice")
def _strided_slice(node):
    rows, rank = node.of_rows(0), node.rank(0)
    if rows is None or rank is None:
        return node.mixed("takes a part that depends on examples")
    axes = _strided_axes(node, rank)
    if axes is None:
        return node.meeting(_PARTS)
    kept, ranges = axes
    first, last, stride = ranges.get(rows.axis, (None, None, 1))
    if rows.axis not in kept or stride != 1:
        return node.meeting(_PARTS)
    first, last, _ = slice(first, last).indices(rows.size(node.examples))
    found = part(node, rows, first, last - first)
    return found.at(kept[rows.axis]) if isinstance(found, Rows) else found


@rule("StridedSliceGrad")
def _strided_slice_gradient(node):
    """Zeros, and the given tensor at the place of the slice."""
    rows, shape = node.of_rows(4), node.constant(0)
    if rows is None or shape is None:
        return node.mixed("has a shape that is not known")
    axes = _strided_axes(node, len(shape))
    if axes is None:
        return node.meeting(_PARTS)
    kept, ranges = axes
    axis = next((a for a, place in kept.items() if place == rows.axis), None)
    if axis is None:
        return node.meeting(_PARTS)
    first, last, stride = ranges.get(axis, (None, None, 1))
    first, last, _ = slice(first, last).indices(int(shape[axis]))
    period = rows.period(node.examples)
    if stride != 1 or first % period or shape[axis] % period:
        return node.meeting(_PARTS)
    return Rows(axis, rows.per_example, int(shape[axis]) // period)


def _strided_axes(node, rank):
    """Where the axes of a tensor go in a strided slice of it; None if that has no known rank.

    The inputs 1 to 3 of the `node` are begin, end and strides. Returns two dicts by axis: to its
    place in the slice, for those that it has; and to (first, last, stride), for those of which a
    range is taken; the stride is "unknown" where one of these is.
    """
    begin, end, strides = (node.constant(k) for k in (1, 2, 3))
    length = node.shape(1)
    if length is None or length[0] is None:
        return None
    masks = {
        name: node.attr(f"{name}_mask")
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    kinds = [_kind(masks, 1 << i) for i in range(length[0])]
    taken = sum(kind in ("shrink", "range") for kind in kinds)
    if "ellipsis" not in kinds:
        kinds.append("ellipsis")
    kept, ranges, axis, place = {}, {}, 0, 0
    for i, kind in enumerate(kinds):
        if kind == "new":
            place += 1
        elif kind == "ellipsis":
            for _ in range(rank - taken):
                kept[axis] = place
                axis, place = axis + 1, place + 1
        elif kind == "shrink":
            axis += 1
        else:
            bit = 1 << i
            ends = (
                None if masks["begin"] & bit else _number(begin, i),
                None if masks["end"] & bit else _number(end, i),
                _number(strides, i),
            )
            kept[axis] = place
            ranges[axis] = (None, None, "unknown") if "unknown" in ends else ends
            axis, place = axis + 1, place + 1
    return kept, ranges


def _kind(masks, bit):
    # In the order in which TensorFlow looks at them.
    if masks["ellipsis"] & bit:
        return "ellipsis"
    if masks["new_axis"] & bit:
        return "new"
    return "shrink" if masks["shrink_axis"] & bit else "range"


def _number(array, i):
    return "unknown" if array is None else int(array[i])


@rule("Split")
def _split(node):
    rows, axis, rank = node.of_rows(1), node.constant(0), node.rank(1)
    if rows is None or axis is None or rank is None:
        return node.mixed("splits an axis that is not known")
    if int(axis) % rank != rows.axis:
        return rows
    size = rows.size(node.examples) // node.attr("num_split")
    return part(node, rows, 0, size)


@rule("SplitV")
def _split_sizes(node):
    rows, sizes, axis, rank = node.of_rows(0), node.constant(1), node.constant(2), node.rank(0)
    if rows is None or axis is None or rank is None:
        return node.mixed("splits an axis that is not known")
    if int(axis) % rank != rows.axis:
        return rows
    if sizes is None or (sizes < 0).any():
        return node.meeting(_PARTS)
    starts = np.cumsum(sizes) - sizes
    return [part(node, rows, int(b), int(n)) for b, n in zip(starts, sizes, strict=True)]


@rule("Unpack")
def _unpack(node):
    rows, axis, rank = node.of_rows(0), node.attr("axis"), node.rank(0)
    if rank is None or axis % rank == rows.axis:
        return node.mixed("takes the examples apart")
    return rows.at(rows.axis - (axis % rank < rows.axis))


@rule("Pack")
def _pack(node):
    rows, rank = common(node, range(len(node.verdicts))), node.rank(0)
    if rows is None or rank is None:
        return node.mixed("rows of several kinds meet")
    axis = node.attr("axis") % (rank + 1)
    return rows.at(rows.axis + (axis <= rows.axis))


@rule("ConcatV2")
def _concat(node):
    count = len(node.verdicts) - 1
    return _joined(node, range(count), count)


rule("Concat")(lambda node: _joined(node, range(1, len(node.verdicts)), 0))


def _joined(node, inputs, axis_input):
    axis, rank = node.constant(axis_input), node.rank(inputs[0])
    if axis is None or rank is None or node.verdicts[axis_input] != FREE:
        return node.mixed("joins along an axis that is not known")
    axis = int(axis) % rank
    rows = [node.verdicts[i] for i in inputs if node.verdicts[i] != FREE]
    if all(isinstance(v, Rows) and v.axis == axis for v in rows):
        # Batches one after another. A free tensor may be one, or several.
        per_example = {v.per_example for v in rows}
        period = rows[0].period(node.examples)
        blocks = 0
        for i in inputs:
            shape = node.shape(i)
            size = None if shape is None else shape[rows[0].axis]
            if len(per_example) > 1 or size is None or size % period:
                return node.mixed("joins the axis of the examples with other entries")
            blocks += size // period
        return Rows(rows[0].axis, rows[0].per_example, blocks)
    return common(node, inputs) or node.mixed("rows of several kinds meet")


@rule("Pad", "PadV2", "MirrorPad")
def _pad(node):
    rows, paddings = node.of_rows(0), node.constant(1)
    if rows is None:
        return node.mixed("has paddings that depend on examples")
    if paddings is None:
        after = node.output_shape()
        whole = after is not None and after[rows.axis] == rows.size(node.examples)
        return rows if whole else node.mixed("pads the axis of the examples")
    before, behind = (int(n) for n in paddings[rows.axis])
    period = rows.period(node.examples)
    if before == behind == 0:
        return rows
    if node.op.type == "MirrorPad" or before % period or behind % period:
        return node.mixed("pads the axis of the examples")
    return Rows(rows.axis, rows.per_example, rows.blocks + (before + behind) // period)


@rule("MirrorPadGrad")
def _mirror_pad_gradient(node):
    rows, paddings = node.of_rows(0), node.constant(1)
    if rows is None or paddings is None or paddings[rows.axis].any():
        return node.mixed("pads the axis of the examples")
    return rows
