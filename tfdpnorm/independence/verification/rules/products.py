"""Products of matrices, and sums of products in Einstein's notation.

Lemma. With a label for each axis, an entry of the result at given labels sums, over the labels that
the result does not have, products of the entries of the inputs at these labels. If all inputs of
rows have them on the axis of one label, which the result has too, an entry of example i reads
entries of example i and free ones.
"""

from tfdpnorm.independence.verification.registry import rule
from tfdpnorm.independence.verification.verdicts import ListOf, Rows


def contracted(node, inputs, output):
    """The verdict on a sum of products, by the labels of the axes of each input and the result."""
    found = label = None
    for verdict, labels in zip(node.verdicts, inputs, strict=True):
        if isinstance(verdict, ListOf):
            return node.mixed("computes with a list")
        if not isinstance(verdict, Rows):
            continue
        own = labels[verdict.axis]
        if labels.count(own) > 1:
            return node.meeting("takes a diagonal over the axis of the examples")
        if label not in (None, own):
            return node.meeting("multiplies every example with every other")
        if own not in output:
            return node.meeting("sums over the axis of the examples")
        if found is not None and found.at(0) != verdict.at(0):
            return node.mixed(f"{found} meet {verdict}")
        found, label = verdict, own
    if output.count(label) > 1:
        return node.meeting("puts the examples on a diagonal")
    return found.at(output.index(label))


def _batch_labels(rank):
    """Labels of all axes but the last two, the same for axes that are aligned from the right."""
    return [("batch", k) for k in range(rank - 2, 0, -1)]


@rule("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "SparseMatMul")
def _matmul(node):
    ranks = node.rank(0), node.rank(1)
    if None in ranks:
        return node.mixed("multiplies a tensor of unknown rank")
    single = node.op.type in ("MatMul", "SparseMatMul")
    names = ("transpose_a", "transpose_b") if single else ("adj_x", "adj_y")
    left, right = ["row", "sum"], ["sum", "column"]
    left = left[::-1] if node.attr(names[0]) else left
    right = right[::-1] if node.attr(names[1]) else right
    inputs = [[*_batch_labels(r), *labels] for r, labels in zip(ranks, (left, right), strict=True)]
    return contracted(node, inputs, [*_batch_labels(max(ranks)), "row", "column"])


@rule("Einsum")
def _einsum(node):
    given, output = node.attr("equation").replace(" ", "").split("->")
    inputs = given.split(",")
    ranks = [node.rank(i) for i in range(len(inputs))]
    if None in ranks:
        return node.mixed("multiplies a tensor of unknown rank")
    hidden = [r - len(t.replace("...", "")) for r, t in zip(ranks, inputs, strict=True)]
    labels = [_labels(t, h) for t, h in zip(inputs, hidden, strict=True)]
    return contracted(node, labels, _labels(output, max(hidden)))


def _labels(term, hidden):
    """The labels of a term; the ellipsis stands for `hidden` axes, aligned from the right."""
    before, dots, after = term.partition("...")
    return [*before, *((".", k) for k in range(hidden if dots else 0, 0, -1)), *after]


@rule("Cross")
def _cross(node):
    rank = node.rank(0)
    if any(v.axis == rank - 1 for _, v in node.rows) or len({v for _, v in node.rows}) > 1:
        return node.meeting("multiplies every example with others")
    return node.rows[0][1]
