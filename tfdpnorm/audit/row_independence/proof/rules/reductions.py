"""Operations over whole axes: sums, maxima, softmax, sorting, running sums, shifts.

Lemma. They compute from all entries along some axes, for each place on the others by itself. If the
axis of the examples is not among these, an entry of example i reads entries of example i only. What
else lies on that axis, such as the lengths of sequences, is of rows or the same for all examples.
"""

import numpy as np

from tfdpnorm.audit.row_independence.proof.draws import BATCH_WIDE
from tfdpnorm.audit.row_independence.proof.registry import UNEVEN, rule


def over_axes(node, axes, keeps, others=None):
    """The verdict on an operation over whole axes of its first input.

    Args:
        node: `Node`.
        axes: Collection of axes, negative ones allowed; None for unknown ones.
        keeps: Whether the result has them as well.
        others: Numbers of the inputs that have to be free; None for all but the first.
    """
    rows, rank = node.of_rows(0, others), node.rank(0)
    if rows is None:
        return node.mixed("depends on examples by its axes or sizes")
    if axes is None or rank is None:
        return node.mixed("works along axes that are not known")
    node.apart(range(1, len(node.verdicts)))
    axes = {int(a) % rank for a in np.reshape(axes, [-1])} if rank else set()
    if rows.axis in axes:
        return node.mixed("works along the axis of the examples")
    return rows if keeps else rows.at(rows.axis - sum(a < rows.axis for a in axes))


@rule("Sum", "Mean", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm")
def _reduction(node):
    return over_axes(node, node.constant(1), node.attr("keep_dims"))


@rule("ArgMax", "ArgMin")
def _arg(node):
    return over_axes(node, node.constant(1), False)


@rule("Softmax", "LogSoftmax")
def _softmax(node):
    return over_axes(node, [-1], True)


@rule("Cumsum", "Cumprod", "CumulativeLogsumexp", "ReverseV2")
def _along(node):
    return over_axes(node, node.constant(1), True)


@rule("Roll")
def _roll(node):
    return over_axes(node, node.constant(2), True)


@rule("TopK", "TopKV2", "NthElement")
def _top(node):
    return over_axes(node, [-1], node.op.type != "NthElement")


@rule("RandomShuffle")
def _shuffle(node):
    """The order of the first axis is free."""
    if node.all_free([0]):
        return node.verdicts[0]
    node.walk.draws.share([node.mixed(BATCH_WIDE)])
    return over_axes(node, [0], True)


@rule("LRN")
def _local(node):
    return over_axes(node, [-1], True)


@rule("LRNGrad")
def _local_gradient(node):
    return _all_along(node, [-1])


@rule("FFT", "IFFT")
def _fft(node):
    return over_axes(node, [-1], True)


@rule("FFT2D", "IFFT2D")
def _fft_2d(node):
    return over_axes(node, [-1, -2], True)


@rule("FFT3D", "IFFT3D")
def _fft_3d(node):
    return over_axes(node, [-1, -2, -3], True)


@rule("RFFT", "IRFFT")
def _real_fft(node):
    return over_axes(node, [-1], True)


@rule("RFFT2D", "IRFFT2D")
def _real_fft_2d(node):
    return over_axes(node, [-1, -2], True)


@rule(
    "Cholesky",
    "LogMatrixDeterminant",
    "MatrixDeterminant",
    "MatrixInverse",
    "Qr",
    "SelfAdjointEigV2",
    "Svd",
    "MatrixBandPart",
    "MatrixDiagPart",
    "MatrixDiagPartV2",
    "MatrixDiagPartV3",
)
def _matrix(node):
    """Matrices on the last two axes; those on all axes before are a batch."""
    return over_axes(node, [-1, -2], True)


@rule("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def _diagonal(node):
    # Several diagonals are on the last axis but one.
    single = node.op.type == "MatrixDiag" or _single(node.constant(1))
    return over_axes(node, [-1] if single else [-1, -2], True)


def _single(k):
    return k is not None and np.size(k) == 1


@rule("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def _set_diagonal(node):
    rank = node.rank(0)
    if rank is None or any(v.axis >= rank - 2 for _, v in node.rows):
        return node.mixed("puts examples on a diagonal")
    return _same(node)


@rule("MatrixTriangularSolve", "MatrixSolve")
def _solve(node):
    rank = node.rank(0)
    if rank is None or rank != node.rank(1) or any(v.axis >= rank - 2 for _, v in node.rows):
        return node.mixed("solves for several examples at once")
    return _same(node)


@rule("ReverseSequence")
def _reverse_sequence(node):
    """Reverses, for each entry along one axis, a part of its own length along another."""
    along, batch = node.attr("seq_dim"), node.attr("batch_dim")
    x, lengths = node.verdicts
    rows = [v for _, v in node.rows]
    axis = batch if x not in rows else x.axis
    if axis == along or (lengths in rows and axis != batch):
        return node.mixed("works along the axis of the examples")
    if len({v.at(0) for v in rows}) > 1:
        return node.mixed("rows of several kinds meet")
    in_lengths = rows[0].at(0 if axis == batch else -1)
    if node.beside(0, rows[0].at(axis)) and node.beside(1, in_lengths):
        return rows[0].at(axis)
    return node.mixed(UNEVEN)


def _all_along(node, axes):
    rank = node.rank(0)
    if rank is None or any(v.axis in {a % rank for a in axes} for _, v in node.rows):
        return node.mixed("works along the axis of the examples")
    return _same(node)


def _same(node):
    """The one kind of rows, on the same axis of all inputs but those that say which diagonal."""
    found = {v for _, v in node.rows}
    if len(found) != 1:
        return node.mixed("rows of several kinds meet")
    rows = found.pop()
    inputs = [i for i in range(len(node.verdicts)) if (node.rank(i) or 0) > 1]
    return rows if all([node.beside(i, rows) for i in inputs]) else node.mixed(UNEVEN)
