"""How far two runs of a function lie apart."""

import numpy as np


def of_rows(mask, values):
    """The part of [n * k, ...] that belongs to the rows of `mask` [n], as [rows, ...]."""
    return values.reshape(len(mask), -1)[mask]


def moved(before, after, wobble=0.0):
    """Largest change between two arrays, relative to the largest number before.

    Args:
        before: Array.
        after: Array.
        wobble: Changes up to this, absolutely, count as none.

    Returns:
        A number; inf for words and booleans that differ, for other shapes, and for numbers of which
        one is finite and the other is not.
    """
    if before.shape != after.shape:
        return float("inf")
    if before.size == 0:
        return 0.0
    if before.dtype.kind in "OSUb":
        return float("inf") if np.any(before != after) else 0.0
    if same_buffer(before, after) or np.array_equal(before, after):
        return 0.0
    wide = np.complex128 if before.dtype.kind == "c" else np.float64
    before, after = before.astype(wide), after.astype(wide)
    finite = np.isfinite(before)
    if np.any(finite != np.isfinite(after)):
        return float("inf")
    with np.errstate(invalid="ignore"):
        change = np.max(np.abs(after - before), where=finite, initial=0.0)
    if change <= wobble:
        return 0.0
    scale = np.max(np.abs(before), where=finite, initial=0.0)
    return float(change / scale) if scale else float("inf")


def moved_together(before, after):
    """As `moved`, for a gradient in parts, relative to all of it: a part may be rounding alone.

    Args:
        before: List of arrays.
        after: List of arrays.

    Returns:
        A number. Parts that are not finite count as unmoved: they are 0 times infinity, of rows
        that training discards.
    """
    pairs = [
        (a, b)
        for a, b in zip(before, after, strict=True)
        if np.isfinite(a).all() and np.isfinite(b).all()
    ]
    change = max((difference(a, b) for a, b in pairs), default=0.0)
    scale = max((float(np.max(np.abs(a), initial=0.0)) for a, _ in pairs), default=0.0)
    return change / scale if scale else float("inf") if change else 0.0


def difference(one, other):
    """Largest absolute change between two arrays of numbers; 0 for words and other shapes."""
    if one.dtype.kind in "OSUb" or one.shape != other.shape:
        return 0.0
    with np.errstate(invalid="ignore"):
        change = np.abs(other.astype(np.float64) - one.astype(np.float64))
    return float(np.max(change, where=np.isfinite(change), initial=0.0))


def same_buffer(one, other):
    """Whether two arrays are the same memory; may be False for some that are."""
    return one.size > 0 and one.shape == other.shape and one.ctypes.data == other.ctypes.data
