"""Operations over whole axes: sums, maxima, softmax, sorting, running sums, shifts.

Lemma. They compute from all entries along some axes, for each place on the others by itself. If the
axis of the examples is not among these, an entry of example i reads entries of example i only, and
of what else lies on that axis, such as the lengths of sequences.

A sum along axes of one entry each moves no entry: it is a reshape. The gradient of a product with
one example, which TensorFlow takes for one that may have been broadcast, has such sums.
"""

import functools

import numpy as np

from tfdpnorm.independence.verification.registry import rule
from tfdpnorm.independence.verification.rules.shapes import reshaped


def _over_axes(node, axes, keeps):
    """The verdict on an operation over whole axes of its first input; `keeps`: the result has them.

    `axes` may be negative; None for unknown ones.
    """
    rows, rank = node.of_rows(0), node.rank(0)
    if rows is None:
        return node.mixed("depends on examples by its axes or sizes")
    if axes is None or rank is None:
        return node.mixed("works along axes that are not known")
    axes = {int(a) % rank for a in np.reshape(axes, [-1])} if rank else set()
    if rows.axis in axes:
        # What asks something of all examples may only choose between two ways to the same result.
        verdict = node.mixed if node.op.type in ("All", "Any") else node.meeting
        return verdict("works along the axis of the examples")
    return rows if keeps else rows.at(rows.axis - sum(a < rows.axis for a in axes))


@rule("Sum")
def _sum(node):
    rows, axes, before = node.of_rows(0), node.constant(1), node.shape(0)
    after = node.output_shape()
    if rows is not None and axes is not None and before and after is not None:
        sizes = [before[int(a)] for a in np.reshape(axes, [-1])]
        if set(sizes) == {1} and None not in (*before, *after):
            return reshaped(node, rows, before, after)
    return _over_axes(node, axes, node.attr("keep_dims"))


rule("Mean", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm")(
    lambda node: _over_axes(node, node.constant(1), node.attr("keep_dims"))
)
rule("ArgMax", "ArgMin")(lambda node: _over_axes(node, node.constant(1), False))
rule("Cumsum", "Cumprod", "CumulativeLogsumexp", "ReverseV2")(
    lambda node: _over_axes(node, node.constant(1), True)
)
rule("Roll")(lambda node: _over_axes(node, node.constant(2), True))


@rule("LRNGrad")
def _local_gradient(node):
    rank = node.rank(0)
    if rank is None or any(v.axis == rank - 1 for _, v in node.rows):
        return node.meeting("works along the axis of the examples")
    return _same(node, range(len(node.verdicts)))


# By types of operations that keep their axes: over which of these, counted from the last.
_LAST_AXES = {
    "FFT IFFT IRFFT LRN LogSoftmax RFFT Softmax TopK TopKV2": [-1],
    """
    Cholesky FFT2D IFFT2D IRFFT2D LogMatrixDeterminant MatrixBandPart MatrixDeterminant
    MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixInverse Qr RFFT2D SelfAdjointEigV2 Svd
    """: [-1, -2],
    "FFT3D IFFT3D": [-1, -2, -3],
}
for _types, _axes in _LAST_AXES.items():
    rule(*_types.split())(functools.partial(_over_axes, axes=_axes, keeps=True))
rule("NthElement")(functools.partial(_over_axes, axes=[-1], keeps=False))


@rule("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def _diagonal(node):
    # Several diagonals are on the last axis but one.
    k = node.constant(1)
    single = node.op.type == "MatrixDiag" or (k is not None and np.size(k) == 1)
    return _over_axes(node, [-1] if single else [-1, -2], True)


@rule("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def _set_diagonal(node):
    rank = node.rank(0)
    if rank is None or any(v.axis >= rank - 2 for _, v in node.rows):
        return node.meeting("puts examples on a diagonal")
    return _same(node, (0, 1))


@rule("MatrixTriangularSolve", "MatrixSolve")
def _solve(node):
    rank = node.rank(0)
    if rank is None or rank != node.rank(1) or any(v.axis >= rank - 2 for _, v in node.rows):
        return node.meeting("solves for several examples at once")
    return _same(node, (0, 1))


@rule("ReverseSequence")
def _reverse_sequence(node):
    """Reverses, for each entry along one axis, a part of its own length along another."""
    along, batch = node.attr("seq_dim"), node.attr("batch_dim")
    x, lengths = node.verdicts
    rows = [v for _, v in node.rows]
    axis = batch if x not in rows else x.axis
    if axis == along or (lengths in rows and axis != batch):
        return node.meeting("works along the axis of the examples")
    if len({v.at(0) for v in rows}) > 1:
        return node.mixed("rows of several kinds meet")
    return rows[0].at(axis)


def _same(node, inputs):
    """The one kind of rows of these inputs, on the same axis; the others have to be free."""
    found = {v for _, v in node.rows}
    others = [i for i in range(len(node.verdicts)) if i not in inputs]
    if len(found) != 1 or not node.all_free(others):
        return node.mixed("rows of several kinds meet")
    return found.pop()
