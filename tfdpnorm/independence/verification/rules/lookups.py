"""Operations that take or put entries by index.

Lemma. A gather copies entries: from a free table by indices of example i only what is free arrives
at the indices' places; by free indices, which lie off the axis of the examples, entries stay on
their place along that axis. A scatter by free indices adds entries up at places off that axis.
For indices along the axis of the examples see `own_entries`.
"""

from tfdpnorm.independence.verification.registry import rule
from tfdpnorm.independence.verification.rules.own_entries import put, taken
from tfdpnorm.independence.verification.rules.slices import common
from tfdpnorm.independence.verification.verdicts import FREE, Rows

_BY_EXAMPLES = "takes entries of examples by indices that depend on examples"
_OF_EXAMPLES = "takes examples by index"
_TOGETHER = "puts entries of examples together by index"


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
    if len(found) != 1:
        return node.mixed(_BY_EXAMPLES)
    return found.pop()


def _taken(node, axis, number=None):
    """The verdict on entries along the axis of the examples, by the indices in input 1.

    The first axis of the indices becomes `axis` of the result; `number` as in `taken`.
    """
    own = taken(node, 1, node.verdicts[0], number)
    if own is None:
        return node.mixed(_OF_EXAMPLES if node.verdicts[1] == FREE else _BY_EXAMPLES)
    return own.at(axis + own.axis)


rule("Gather")(lambda node: gathered(node, 0, 0))


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
    if isinstance(params, Rows) and params.axis < depth:
        of_place = isinstance(indices, Rows) and indices.axis == len(shape) - 1
        return node.mixed(_BY_EXAMPLES) if of_place else _taken(node, 0, params.axis)
    if params == FREE and isinstance(indices, Rows) and indices.axis < len(shape) - 1:
        return indices
    if indices == FREE and isinstance(params, Rows):
        return params.at(len(shape) - 1 + params.axis - depth)
    return node.mixed(_BY_EXAMPLES)


def _of_entries(node, updates, indices, outer):
    """The `Rows` of entries that are put by index, on an axis of the indices; None if unknown.

    `updates` and `indices` are the numbers of these inputs, which share so many `outer` axes.
    """
    found = {v for v in (node.verdicts[updates], node.verdicts[indices]) if isinstance(v, Rows)}
    return found.pop() if len(found) == 1 and next(iter(found)).axis < outer else None


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
    if rows is not None and rank is not None and rows.axis >= rank:
        return rows.at(rows.axis - rank + 1)
    own = None if rank is None else _of_entries(node, 0, 1, rank)
    count = node.constant(2)
    if own is None or count is None:
        return node.mixed(_TOGETHER)
    return put(node, 1, own, [count], whole=True) or node.mixed(_TOGETHER)


@rule("SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd")
def _sorted_segments(node):
    rows = node.of_rows(0)
    if rows is None or rows.axis < 1:
        return node.mixed(_TOGETHER)
    return rows


@rule("ScatterNd")
def _scatter(node):
    rows, shape = node.of_rows(1), node.shape(0)
    if shape is None or shape[-1] is None:
        return node.mixed(_TOGETHER)
    if rows is not None and rows.axis >= len(shape) - 1:
        return rows.at(shape[-1] + rows.axis - (len(shape) - 1))
    own, sizes = _of_entries(node, 1, 0, len(shape) - 1), node.constant(2)
    if own is None or sizes is None:
        return node.mixed(_TOGETHER)
    return put(node, 0, own, sizes[: shape[-1]]) or node.mixed(_TOGETHER)


@rule("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub")
def _tensor_scatter(node):
    tensor, indices, updates = node.verdicts
    before, shape = node.shape(0), node.shape(1)
    if None in (before, shape) or shape[-1] is None:
        return node.mixed(_TOGETHER)
    own = _of_entries(node, 2, 1, len(shape) - 1)
    if own is not None:
        target = put(node, 1, own, before[: shape[-1]])
        return target if target and node.is_of(0, target) else node.mixed(_TOGETHER)
    if indices == updates == FREE:
        return tensor
    found = set()
    if isinstance(tensor, Rows):
        found.add(tensor if tensor.axis >= shape[-1] else None)
    if isinstance(updates, Rows):
        inner = updates.axis - (len(shape) - 1)
        found.add(updates.at(shape[-1] + inner) if inner >= 0 else None)
    if indices != FREE or len(found) != 1 or None in found:
        return node.mixed(_TOGETHER)
    return found.pop()


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
    return found.pop()


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


# Not the learned samplers, which keep how often they saw a class.
@rule("LogUniformCandidateSampler", "UniformCandidateSampler", "FixedUnigramCandidateSampler")
def _candidates(node):
    """Draws classes for all, as in `tf.nn.sampled_softmax_loss`; the true ones are looked up only.

    As many random numbers are set aside for a draw whatever the true classes [rows, n] are, and
    entry n of the expected counts is that of true class n.
    """
    rows = FREE if node.all_free([0]) else node.of_rows(0)
    if rows is None:
        return node.mixed("looks up classes that are not of rows")
    return [FREE, rows, FREE]
