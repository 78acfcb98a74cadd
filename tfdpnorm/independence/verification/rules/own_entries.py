"""Indices along the axis of the examples: whether they name entries of their own example.

Lemma. Let an entry of a tensor of indices, or of what is put by them, belong to example i. If in
every run the places that it may name, known by their bounds, belong to example i as well, then to
take or put entries there lets no examples meet. So `range(P) * n + k` with 0 <= k < n names entries
of its own example among n for each, and `range(P) - 1` does not.
"""

import numpy as np

from tfdpnorm.independence.verification.verdicts import Rows


def owners(rows, examples):
    """The example of each entry of an axis of `Rows`, an array."""
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


def named(node, i, target, number=None):
    """The example whose entries each index names, whatever the examples are; None if unknown.

    Input i has the indices, which count on the axis of `target`, `Rows`. If the numbers on their
    last axis are an index together, `number` says which of them counts there; None if each entry is
    an index. Returns an array of the indices' shape, without the last axis in the first case. None
    as well if an index may be outside of the axis.
    """
    bounds = node.bounds(i)
    if bounds is None:
        return None
    low, high = (end if number is None else end[..., number] for end in bounds)
    m = target.per_example
    inside = (low >= 0).all() and (high < target.size(node.examples)).all()
    return low // m % node.examples if inside and (low // m == high // m).all() else None


def taken(node, i, target, number=None):
    """The `Rows` of entries that are taken along the axis of the examples; None if they may meet.

    The indices are free or of rows; the arguments are those of `named`.
    """
    found, verdict = named(node, i, target, number), node.verdicts[i]
    if found is None:
        return None
    if isinstance(verdict, Rows):
        return verdict if _belong(found, verdict, node.examples) else None
    # Indices that name entries of these examples, on whichever axis they lie.
    for axis in range(found.ndim):
        along = np.moveaxis(found, axis, 0).reshape(found.shape[axis], -1)
        if along.size and (along == along[:, :1]).all():
            rows = layout(along[:, 0], axis, node.examples)
            if rows is not None:
                return rows
    return None


def _belong(found, own, examples):
    """Whether indices name entries of the example that they belong to, as `own` says."""
    if own.axis >= found.ndim:  # that of the numbers of one index
        return False
    shape = [1] * found.ndim
    shape[own.axis] = -1
    return bool((found == owners(own, examples).reshape(shape)).all())


def put(node, indices, own, sizes, whole=False):
    """The `Rows` of a tensor to which entries are put, if each example gets its own alone, or None.

    They are on the first axis that is divided so. Input `indices`, [..., len(sizes)], counts on the
    tensor's first axes, of these sizes; with `whole` each entry is an index, and there is one size.
    `own` are the `Rows` of the entries, on an axis that the indices have as well.
    """
    for axis, size in enumerate(sizes):
        per_example, rest = divmod(int(size or 0), node.examples)
        if rest or not per_example:
            continue
        target = Rows(axis, per_example)
        found = named(node, indices, target, None if whole else axis)
        if found is not None and _belong(found, own, node.examples):
            return target
    return None
