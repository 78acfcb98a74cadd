"""Operations that take or put entries by index.

Lemma. A gather copies entries: from a free table by indices of example i only what is free arrives
at the indices' places; by free indices, which lie off the axis of the examples, entries stay on
their place along that axis. A scatter by free indices adds entries up at places off that axis. If
an axis of a free table, or of free indices, is that of the examples, it has to be the same for all.
For indices along the axis of the examples see `own_entries`; these may be of rows but for an
offset.
"""

import functools

from tfdpnorm.audit.row_independence.proof.registry import UNEVEN, rule
from tfdpnorm.audit.row_independence.proof.rules.own_entries import (
    layout,
    owners,
    point_home,
    put,
)
from tfdpnorm.audit.row_independence.proof.rules.slices import common
from tfdpnorm.audit.row_independence.proof.verdicts import FREE, Mixed, Rows

_BY_EXAMPLES = "takes entries of examples by indices that depend on examples"
_OF_EXAMPLES = "takes examples by index"
_TOGETHER = "puts entries of examples together by index"


def _by_index(i, *op_types):
    """Registers a rule that is asked if input i, the indices, is of rows but for an offset."""

    def add(function):
        @functools.wraps(function)
        def given(node):
            for k, verdict in enumerate(node.verdicts):
                if isinstance(verdict, Mixed) and k != i:
                    return verdict
            if isinstance(node.verdicts[i], Mixed) and node.shifted(i) is None:
                return _refused(node, i, _OF_EXAMPLES if "Gather" in node.op.type else _TOGETHER)
            return function(node)

        return rule(*op_types, takes_mixed=True)(given)

    return add


def _refused(node, i, why):
    """The verdict on entries that are not shown to stay with their example.

    The sum of an index and of a first place for each example is no fault by itself.
    """
    indices = node.verdicts[i]
    counted = isinstance(indices, Mixed) and indices.why == UNEVEN and node.rows
    return indices if isinstance(indices, Mixed) and not counted else node.mixed(why)


def gathered(node, axis, batch_axes):
    """The verdict on a gather from input 0 by the indices in input 1."""
    params, indices = node.verdicts[:2]
    ranks = node.rank(0), node.rank(1)
    if None in ranks:
        return node.mixed("takes entries of a tensor of unknown rank")
    axis %= ranks[0]
    if batch_axes < 0:
        batch_axes %= ranks[1]
    if isinstance(params, Rows) and params.axis == axis:
        return node.mixed(_OF_EXAMPLES) if batch_axes else _taken(node, axis)
    found = set()
    if isinstance(params, Rows):
        grown = ranks[1] - batch_axes - 1
        found.add(params if params.axis < axis else params.at(params.axis + grown))
    if isinstance(indices, Rows):
        own = indices.axis
        found.add(indices if own < batch_axes else indices.at(own + axis - batch_axes))
    if len(found) != 1 or isinstance(indices, Mixed):
        return _refused(node, 1, _BY_EXAMPLES)
    if isinstance(params, Rows) and isinstance(indices, Rows) and indices.axis >= batch_axes:
        return node.mixed(_BY_EXAMPLES)
    of_params = isinstance(params, Rows)
    (own, other) = (params, 1) if of_params else (indices, 0)
    if own.axis < batch_axes:
        return found.pop() if node.beside(other, own) else node.mixed(UNEVEN)
    node.apart([other])
    return found.pop()


def _taken(node, axis, number=None):
    """The verdict on entries along the axis of the examples, by the indices in input 1.

    Args:
        node: `Node`.
        axis: The axis of the result that the first one of the indices becomes.
        number: As in `point_home`.
    """
    params, shifted = node.verdicts[0], node.shifted(1)
    if shifted is None:
        return _refused(node, 1, _OF_EXAMPLES)
    own = shifted.remainder
    if not isinstance(own, Rows):
        # Known numbers, such as those of a repetition of each example, one after another.
        numbers = shifted.offset if number is None else shifted.offset[..., number]
        known = numbers.ndim == 1 and (numbers >= 0).all()
        own = layout(owners(params, node.examples)[numbers], 0, node.examples) if known else None
    if own is None or not point_home(node, 1, own, params, number):
        return _refused(node, 1, _BY_EXAMPLES if node.verdicts[1] != FREE else _OF_EXAMPLES)
    node.apart([1])
    return own.at(axis + own.axis)


@_by_index(1, "Gather")
def _gather(node):
    return gathered(node, 0, 0)


@rule("ResourceGather", "ResourceGatherNd")
def _resource_gather(node):
    """The vectors that a variable holds for given indices take the places of these."""
    if node.all_free(range(2)):
        return FREE
    indices, rank = node.of_rows(1), node.rank(1)
    whole = node.op.type == "ResourceGather"
    if indices is None or rank is None or not (whole or indices.axis < rank - 1):
        return node.mixed(_BY_EXAMPLES)
    if whole and indices.axis < node.attr("batch_dims"):
        return node.mixed(UNEVEN)
    return indices


@_by_index(1, "GatherV2")
def _gather_v2(node):
    axis = node.constant(2)
    if axis is None or node.verdicts[2] != FREE:
        return node.mixed("takes entries along an axis that is not known")
    return gathered(node, int(axis), node.attr("batch_dims"))


@_by_index(1, "GatherNd")
def _gather_nd(node):
    params, indices = node.verdicts
    shape, rank = node.shape(1), node.rank(0)
    if shape is None or rank is None or shape[-1] is None:
        return node.mixed("takes entries of a tensor of unknown shape")
    depth = shape[-1]
    if isinstance(params, Rows) and params.axis < depth:
        of_place = isinstance(indices, Rows) and indices.axis == len(shape) - 1
        return node.mixed(_BY_EXAMPLES) if of_place else _taken(node, 0, params.axis)
    node.apart([0, 1])
    if params == FREE and isinstance(indices, Rows) and indices.axis < len(shape) - 1:
        return indices
    if indices == FREE and isinstance(params, Rows):
        return params.at(len(shape) - 1 + params.axis - depth)
    return _refused(node, 1, _BY_EXAMPLES)


def _of_entries(node, updates, indices, outer):
    """The `Rows` of entries that are put by index, on an axis of the indices; None if unknown.

    Args:
        node: `Node`.
        updates: Number of the input with the entries.
        indices: Number of the input with the indices.
        outer: How many axes the two share.
    """
    shifted = node.shifted(indices)
    given = [node.verdicts[updates], shifted.remainder if shifted else None]
    found = {v for v in given if isinstance(v, Rows)}
    if len(found) != 1 or next(iter(found)).axis >= outer:
        return None
    own = found.pop()
    node.apart([indices])
    return own if node.beside(updates, own) else None


@rule("OneHot")
def _one_hot(node):
    rows, rank = node.of_rows(0), node.rank(0)
    if rows is None or rank is None:
        return node.mixed("has a depth or values that depend on examples")
    axis = node.attr("axis") % (rank + 1)
    return rows.at(rows.axis + (axis <= rows.axis))


@_by_index(
    1, "UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"
)
def _segments(node):
    rows, rank = node.of_rows(0), node.rank(1)
    if rows is not None and rank is not None and rows.axis >= rank:
        node.apart([1])
        return rows.at(rows.axis - rank + 1)
    own = None if rank is None else _of_entries(node, 0, 1, rank)
    count = node.constant(2)
    if own is None or count is None:
        return _refused(node, 1, _TOGETHER)
    return put(node, 1, own, [count], whole=True) or _refused(node, 1, _TOGETHER)


@rule("SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd")
def _sorted_segments(node):
    rows = node.of_rows(0)
    if rows is None or rows.axis < 1:
        return node.mixed(_TOGETHER)
    node.apart([1])
    return rows


@_by_index(0, "ScatterNd")
def _scatter(node):
    rows, shape = node.of_rows(1), node.shape(0)
    if shape is None or shape[-1] is None:
        return node.mixed(_TOGETHER)
    if rows is not None and rows.axis >= len(shape) - 1:
        node.apart([0])
        return rows.at(shape[-1] + rows.axis - (len(shape) - 1))
    own, sizes = _of_entries(node, 1, 0, len(shape) - 1), node.constant(2)
    if own is None or sizes is None:
        return _refused(node, 0, _TOGETHER)
    return put(node, 0, own, sizes[: shape[-1]]) or _refused(node, 0, _TOGETHER)


@_by_index(1, "TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub")
def _tensor_scatter(node):
    tensor, indices, updates = node.verdicts
    before, shape = node.shape(0), node.shape(1)
    if None in (before, shape) or shape[-1] is None:
        return node.mixed(_TOGETHER)
    own = _of_entries(node, 2, 1, len(shape) - 1)
    if own is not None:
        target = put(node, 1, own, before[: shape[-1]])
        return target if target and node.beside(0, target) else _refused(node, 1, _TOGETHER)
    if indices != FREE:
        return _refused(node, 1, _TOGETHER)
    found = set()
    if isinstance(tensor, Rows):
        found.add(tensor if tensor.axis >= shape[-1] else None)
    if isinstance(updates, Rows):
        inner = updates.axis - (len(shape) - 1)
        found.add(updates.at(shape[-1] + inner) if inner >= 0 else None)
    if len(found) != 1 or None in found:
        return node.mixed(_TOGETHER)
    rows = found.pop()
    node.apart([1])
    in_updates = rows.at(rows.axis - shape[-1] + len(shape) - 1)
    if node.beside(0, rows) and node.beside(2, in_updates):
        return rows
    return node.mixed(UNEVEN)


@rule("DynamicStitch", "ParallelDynamicStitch")
def _stitch(node):
    """Pieces put at free places of a new first axis."""
    count = len(node.verdicts) // 2
    data, rank = common(node, range(count, 2 * count)), node.rank(0)
    ranks = {node.rank(i) for i in range(count)}
    if not node.all_free(range(count)) or data is None or len(ranks) > 1 or None in ranks:
        return node.mixed(_TOGETHER)
    if data.axis < rank:
        return node.mixed(_TOGETHER)
    node.apart(range(count))
    if not all([node.beside(i, data) for i in range(count, 2 * count)]):
        return node.mixed(UNEVEN)
    return data.at(data.axis - rank + 1)


@rule("DenseBincount")
def _counts(node):
    """A matrix is counted row by row; a vector, all together."""
    together = "counts entries of all examples together"
    if node.rank(0) != 2 or not node.all_free([1]):
        return node.mixed(together)
    found = {v for _, v in node.rows}
    if len(found) != 1 or next(iter(found)).axis:
        return node.mixed(together)
    rows = found.pop()
    # Without weights there is an empty tensor of them.
    return rows if node.beside(0, rows) and node.beside(2, rows) else node.mixed(UNEVEN)


@rule(
    "Where",
    "Unique",
    "UniqueV2",
    "UniqueWithCounts",
    "UniqueWithCountsV2",
    "ListDiff",
    "Bincount",
    "DynamicPartition",
    "InvertPermutation",
)
def _over_all(node):
    return node.mixed("takes entries of all examples together")
