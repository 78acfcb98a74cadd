"""Indices along the axis of the examples: whether they name entries of their own example.

Lemma. Let an entry of a tensor of indices, or of what is put by them, belong to example i. If in
every run the places that it may name, known by their bounds, belong to example i as well, then to
take or put entries there lets no examples meet. An axis of rows has m entries for each example, and
those of example i begin m i further on than the first one's. So if the places less m i, and the
other numbers of the same index, are of rows, or are constants that are the same for all examples,
then the same is done at the place of each.
"""

import numpy as np

from tfdpnorm.audit.row_independence.proof.verdicts import Rows


def owners(rows, examples):
    """The example of each entry of an axis, an array.

    Args:
        rows: `Rows` of the axis.
        examples: P.
    """
    return np.arange(rows.size(examples)) // rows.per_example % examples


def layout(found, axis, examples):
    """The `Rows` on an axis whose entries belong to these examples; None if there is none."""
    found = np.asarray(found)
    others = np.flatnonzero(found)
    per_example = int(others[0]) if len(others) else len(found)
    blocks, rest = divmod(len(found), per_example * examples) if per_example else (0, 0)
    if not blocks or rest:
        return None
    rows = Rows(axis, per_example, blocks)
    return rows if np.array_equal(found, owners(rows, examples)) else None


def point_home(node, i, own, target, number=None):
    """Whether indices name entries of their own example, and the same ones for each.

    Args:
        node: `Node`.
        i: Number of the input with the indices.
        own: `Rows` of what the indices, or what is put by them, belong to, on an axis of theirs.
        target: `Rows` of the axis that the indices count on.
        number: Which of the numbers on the last axis counts there, if these are an index together;
            None if each entry is an index.
    """
    bounds, shifted = node.bounds(i), node.shifted(i)
    if bounds is None or shifted is None:
        return False
    if isinstance(shifted.remainder, Rows) and shifted.remainder != own:
        return False
    shape = [1] * shifted.offset.ndim
    shape[own.axis] = -1
    owner = owners(own, node.examples).reshape(shape)
    counting = (..., slice(None) if number is None else slice(number, number + 1))
    low, high = (end[counting] for end in bounds)
    m = target.per_example
    inside = (low >= 0).all() and (high < target.size(node.examples)).all()
    at_home = (low // m == high // m).all() and (low // m % node.examples == owner).all()
    relative = shifted.offset.copy()
    relative[counting] -= m * owner
    return bool(inside and at_home and _same_for_all(relative, own, node.examples))


def _same_for_all(array, rows, examples):
    """Whether the entries of an array, laid out as rows, are the same for all examples."""
    entries = np.moveaxis(array, rows.axis, 0)
    entries = entries.reshape(rows.blocks, examples, rows.per_example, -1)
    return (entries == entries[:, :1]).all()


def put(node, indices, own, sizes, whole=False):
    """The verdict on entries that are put at places of a tensor.

    Args:
        node: `Node`.
        indices: Number of the input with the indices, [..., len(sizes)].
        own: `Rows` of the entries, on an axis that the indices have as well.
        sizes: Those of the tensor's first axes, on which the indices count.
        whole: Whether each entry is an index, and `sizes` has one entry.

    Returns:
        The `Rows` on the first axis of which each example has one part, and gets its own entries
        there alone. None if there is no such axis.
    """
    for axis, size in enumerate(sizes):
        per_example, rest = divmod(int(size or 0), node.examples)
        if rest or not per_example:
            continue
        target = Rows(axis, per_example)
        if point_home(node, indices, own, target, None if whole else axis):
            return target
    return None
