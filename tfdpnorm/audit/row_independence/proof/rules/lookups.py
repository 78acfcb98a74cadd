"""Operations that take or put entries by index.

Lemma. A gather copies entries: from a free table by indices of example i only what is free arrives
at the indices' places; by free indices, which lie off the axis of the examples, entries stay on
their place along that axis. A scatter by free indices adds entries up at places off that axis.
"""

from tfdpnorm.audit.row_independence.proof.registry import rule
from tfdpnorm.audit.row_independence.proof.rules.slices import common
from tfdpnorm.audit.row_independence.proof.verdicts import FREE, Rows

_BY_EXAMPLES = "takes entries of examples by indices that depend on examples"
_OF_EXAMPLES = "takes examples by index"


def gathered(node, axis, batch_axes):
    """The verdict on a gather from input 0 by the indices in input 1."""
    params, indices = node.verdicts[:2]
    ranks = node.rank(0), node.rank(1)
    if None in ranks:
        return node.mixed("takes entries of a tensor of unknown rank")
    axis %= ranks[0]
    if batch_axes < 0:
        batch_axes %= ranks[1]
    found = set()
    if isinstance(params, Rows):
        if params.axis == axis:
            return node.mixed(_OF_EXAMPLES)
        grown = ranks[1] - batch_axes - 1
        found.add(params if params.axis < axis else params.at(params.axis + grown))
    if isinstance(indices, Rows):
        own = indices.axis
        found.add(indices if own < batch_axes else indices.at(own + axis - batch_axes))
    if len(found) != 1:
        return node.mixed(_BY_EXAMPLES)
    if isinstance(params, Rows) and isinstance(indices, Rows) and indices.axis >= batch_axes:
        return node.mixed(_BY_EXAMPLES)
    return found.pop()


@rule("Gather")
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
    return indices


@rule("GatherV2")
def _gather_v2(node):
    axis = node.constant(2)
    if axis is None or node.verdicts[2] != FREE:
        return node.mixed("takes entries along an axis that is not known")
    return gathered(node, int(axis), node.attr("batch_dims"))


@rule("GatherNd")
def _gather_nd(node):
    params, indices = node.verdicts
    shape, rank = node.shape(1), node.rank(0)
    if shape is None or rank is None or shape[-1] is None:
        return node.mixed("takes entries of a tensor of unknown shape")
    depth = shape[-1]
    if params == FREE and isinstance(indices, Rows) and indices.axis < len(shape) - 1:
        return indices
    if indices == FREE and isinstance(params, Rows) and params.axis >= depth:
        return params.at(len(shape) - 1 + params.axis - depth)
    return node.mixed(_BY_EXAMPLES if indices != FREE else _OF_EXAMPLES)


@rule("OneHot")
def _one_hot(node):
    rows, rank = node.of_rows(0), node.rank(0)
    if rows is None or rank is None:
        return node.mixed("has a depth or values that depend on examples")
    axis = node.attr("axis") % (rank + 1)
    return rows.at(rows.axis + (axis <= rows.axis))


@rule("UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd")
def _segments(node):
    rows, rank = node.of_rows(0), node.rank(1)
    if rows is None or rank is None or rows.axis < rank:
        return node.mixed("puts entries of examples together by index")
    return rows.at(rows.axis - rank + 1)


@rule("SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd")
def _sorted_segments(node):
    rows = node.of_rows(0)
    if rows is None or rows.axis < 1:
        return node.mixed("puts entries of examples together by index")
    return rows


@rule("ScatterNd")
def _scatter(node):
    rows, shape = node.of_rows(1), node.shape(0)
    if rows is None or shape is None or shape[-1] is None or rows.axis < len(shape) - 1:
        return node.mixed("puts entries of examples together by index")
    return rows.at(shape[-1] + rows.axis - (len(shape) - 1))


@rule("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub")
def _tensor_scatter(node):
    tensor, indices, updates = node.verdicts
    shape = node.shape(1)
    if indices != FREE or shape is None or shape[-1] is None:
        return node.mixed("puts entries of examples together by index")
    found = set()
    if isinstance(tensor, Rows):
        found.add(tensor if tensor.axis >= shape[-1] else None)
    if isinstance(updates, Rows):
        inner = updates.axis - (len(shape) - 1)
        found.add(updates.at(shape[-1] + inner) if inner >= 0 else None)
    if len(found) != 1 or None in found:
        return node.mixed("puts entries of examples together by index")
    return found.pop()


@rule("DynamicStitch", "ParallelDynamicStitch")
def _stitch(node):
    """Pieces put at free places of a new first axis."""
    count = len(node.verdicts) // 2
    data, rank = common(node, range(count, 2 * count)), node.rank(0)
    ranks = {node.rank(i) for i in range(count)}
    if not node.all_free(range(count)) or data is None or len(ranks) > 1 or None in ranks:
        return node.mixed("puts entries of examples together by index")
    if data.axis < rank:
        return node.mixed("puts entries of examples together by index")
    return data.at(data.axis - rank + 1)


@rule(
    "Where",
    "Unique",
    "UniqueV2",
    "UniqueWithCounts",
    "UniqueWithCountsV2",
    "ListDiff",
    "Bincount",
    "DenseBincount",
    "DynamicPartition",
    "InvertPermutation",
)
def _over_all(node):
    return node.mixed("takes entries of all examples together")
