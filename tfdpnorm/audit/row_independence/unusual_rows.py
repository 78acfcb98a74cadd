"""Rows of kinds that a coupling may wait for: copies, empty, cut short, huge, not finite."""

import numpy as np
import tensorflow as tf

HUGE = 1e8


def batch_of(rows, count):
    """Ordinary rows of `ProbeRows`, as often as it takes to make `count`."""

    def repeated(base, other):
        both = np.concatenate([base, other])
        return both[np.arange(count) % len(both)]

    return tf.nest.map_structure(repeated, rows.base, rows.other)


def copies(mask, rows, ids_only=False):
    """Rows outside of `mask` [n] as copies of those inside.

    Args:
        mask: Which rows to copy.
        rows: Structure of arrays [n, ...].
        ids_only: Whether to leave floats as they are, and copy labels and ids alone.
    """
    inside = np.flatnonzero(mask)

    def copied(a):
        if ids_only and _is_float(a):
            return a
        a = a.copy()
        a[~mask] = a[inside[np.arange(np.sum(~mask)) % len(inside)]]
        return a

    return tf.nest.map_structure(copied, rows)


def empty(rows):
    """Rows of zeros; words are empty."""
    return tf.nest.map_structure(
        lambda a: np.full_like(a, "") if a.dtype == object else np.zeros_like(a), rows
    )


def cut_short(rows):
    """Rows that are empty in the second half of the axis after that of the rows, if there is one.

    So are sequences that were padded.
    """

    def cut(a):
        if a.ndim < 2 or a.shape[1] < 2:
            return a
        first = np.arange(a.shape[1]) < (a.shape[1] + 1) // 2
        return np.where(np.reshape(first, [-1] + [1] * (a.ndim - 2)), a, empty(a))

    return tf.nest.map_structure(cut, rows)


def huge(rows):
    """Floats times 1e8."""

    def far(a):
        if not _is_float(a):
            return a
        with np.errstate(over="ignore", invalid="ignore"):
            return (a.astype(np.float64) * HUGE).astype(a.dtype)

    return tf.nest.map_structure(far, rows)


def far_and_missing(rows, step=1):
    """Two rows with NaN in place of some floats, then two huge ones, and so on.

    Args:
        rows: Structure of arrays [n, ...].
        step: One of so many floats is NaN.
    """

    def mixed(a, far):
        if not _is_float(a):
            return a
        missing = a.copy()
        missing.reshape(len(a), -1)[:, ::step] = np.nan
        pick = np.reshape(np.arange(len(a)) % 4 < 2, [-1] + [1] * (a.ndim - 1))
        return np.where(pick, missing, far)

    return tf.nest.map_structure(mixed, rows, huge(rows))


def _is_float(a):
    return tf.as_dtype(a.dtype).is_floating
