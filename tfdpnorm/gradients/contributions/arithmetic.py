"""Sums and norms over rows that rounding and numbers that are not finite cannot spoil."""

import math

import numpy as np
import tensorflow as tf

from tfdpnorm.gradients.contributions.row_sums import LONGER
from tfdpnorm.keras_compat.devices_and_precision import in_xla

_MOST_CHUNKS = 16
_SQUARES_AT_ONCE = 128
_FEW_NUMBERS = 2**16  # copied in less time than it takes to begin a branch

# How much longer the parts of a gradient may be, added up by their norms, than the gradient.
_MOST_CANCELLED = 256.0

# Of a squared norm; a little less than the square of `LONGER`, for rounding.
MOST_REMOVED = 0.99 * LONGER**2


def sum_of_squares(x, axis=None):
    """The squared L2 norm over `axis`, or of each row of x, [rows, ...]; never less than that.

    A sum of n squares in x's own dtype may lose n units of rounding, as small ones next to a large
    one do. So few are added up at a time, and what they may have lost is added.
    """
    axes = range(1, x.shape.rank) if axis is None else [i % x.shape.rank for i in axis]
    if not axes:
        return tf.square(x) + lost_squares(x.dtype)
    x, axes = _split_last(x, sorted(axes))
    # The last ones that hold few numbers, or the very last one.
    inner, count = [], 1
    for i in reversed(axes):
        size = x.shape[i]
        if inner and (None in (size, count) or count * size > _SQUARES_AT_ONCE):
            break
        inner.append(i)
        count = size and count * size
    if in_xla():
        squares = tf.reduce_sum(tf.square(x), inner, keepdims=True)
    else:
        # By the norm: squaring x first would write a copy of it, and take twice as long.
        squares = tf.square(tf.math.reduce_euclidean_norm(x, inner, keepdims=True))
    if len(inner) < len(axes):
        outer = [i for i in axes if i not in inner]
        squares = tf.reduce_sum(tf.cast(squares, tf.float64), outer, keepdims=True)
    squares = tf.cast(tf.squeeze(squares, axes), x.dtype)
    sizes = [x.shape[i] for i in inner]
    as_dtype = x.dtype.as_numpy_dtype
    unit = np.finfo(as_dtype).eps / 2
    if None in sizes:
        with_lost = 1 + tf.cast(tf.size(x) + 8, x.dtype) * unit
    else:  # a number, which makes a smaller graph
        with_lost = as_dtype(1 + (math.prod(sizes) + 8) * float(unit))
    return squares * with_lost + lost_squares(x.dtype)


def added_in_float64(squares, axis):
    """The sum of squared norms over `axis`, in their own dtype: rounded once, however many."""
    return tf.cast(tf.reduce_sum(tf.cast(squares, tf.float64), axis), squares.dtype)


def _split_last(x, axes):
    """x with the last axis in two, if many are added up along it and it can be divided."""
    size = x.shape[-1]
    if axes[-1] != x.shape.rank - 1 or size is None or size <= _SQUARES_AT_ONCE:
        return x, axes
    few = max(k for k in range(1, _SQUARES_AT_ONCE + 1) if size % k == 0)
    if few < _SQUARES_AT_ONCE // 8:
        return x, axes
    outer = list(x.shape[:-1])
    if outer.count(None) > 1:
        outer = tf.unstack(tf.shape(x)[:-1])
    outer = [-1 if size is None else size for size in outer]
    return tf.reshape(x, [*outer, size // few, few]), [*axes, x.shape.rank]


def lost_squares(dtype):
    """At least what a sum of up to 2^24 squares may lose to underflow.

    Without it, the product of factors 1e-19 and 1e19 would pass for a gradient of norm 0 in
    float32: the square of the first is 0.
    """
    return 2**24 * np.finfo(dtype.as_numpy_dtype).tiny


def gram_norms(gram_a, gram_b, roundings, removed=None, removed_roundings=0):
    """The squared norms of g_i = sum_t a_it b_it^T, [rows], from Gram matrices over positions t.

    These are A = (a_t . a_s) and B = (b_t . b_s), [rows, T, T]. Where the outer products cancel,
    ||g||^2 is a small difference of large numbers, and rounding could make it too small, which
    would let a row exceed the clip. Therefore this adds the most that rounding can take away. A sum
    of products x_k y_k in which no term goes through more than n roundings is off by at most n u
    sum_k |x_k y_k| <= n u ||x|| ||y||, with u = 2^-24 for float32 (Higham 2002, "Accuracy and
    stability of numerical algorithms", Section 3.1). So errors in the entries of A and B move the
    result by at most

        u sum_ts (n_a ||a_t|| ||a_s|| |B_ts| + n_b ||b_t|| ||b_s|| |A_ts|)

    with `roundings` = (n_a, n_b), at most d for a product of [T, d] matrices. The sum over pairs of
    positions is taken in float64.

    The gradient that is added up is rounded, too: each of its terms once as b_t is clipped, once as
    a product and at most T - 1 times as it is added to others, so (T + 1) u sum_t ||a_t|| ||b_t||
    is added to the norm. And the norm is taken to be at least 1 / 256 of that sum, and 1 / 4 of
    what it is before parts are taken out of it: so no row of a clipped sum has parts whose norms
    add up to more than 256 C, or a norm of more than 4 C, and they do not move others by more than
    is charged (see `RowSums`).

    `removed`, [rows], are squared norms of parts of g, at right angles to the rest, that are taken
    out of it; `removed_roundings` is their n, relative to (sum_t ||a_t|| ||b_t||)^2.
    """
    dtype = gram_a.dtype
    wide = [tf.cast(gram, tf.float64) for gram in (gram_a, gram_b)]
    whole = tf.cast(tf.reduce_sum(wide[0] * wide[1], axis=[1, 2]), dtype)
    lost = lost_squares(dtype)
    squares = [tf.linalg.diag_part(gram) + lost for gram in (gram_a, gram_b)]
    norm_a, norm_b = map(tf.sqrt, squares)
    (n_a, n_b), own = roundings, 4 + removed_roundings
    positions = gram_a.shape[1] or tf.shape(gram_a)[1]
    if dtype == tf.float64:
        own += positions**2
    bounds = [
        tf.cast(n_a, dtype) * _quadratic(norm_a, tf.abs(gram_b)),
        tf.cast(n_b, dtype) * _quadratic(norm_b, tf.abs(gram_a)),
        tf.cast(own, dtype) * tf.square(tf.reduce_sum(norm_a * norm_b, axis=1)),
    ]
    unit = np.finfo(dtype.as_numpy_dtype).eps / 2
    parts = tf.reduce_sum(norm_a * norm_b, axis=1)

    def rounded_up(norms):
        norms = tf.maximum(norms, 0.0) + unit * tf.add_n(bounds)
        return tf.square(tf.sqrt(norms) + unit * tf.cast(positions + 1, dtype) * parts)

    norms = rounded_up(whole)
    if removed is not None:
        norms = tf.maximum(rounded_up(whole - removed), norms / MOST_REMOVED)
    norms = tf.maximum(norms, tf.square(parts / _MOST_CANCELLED))
    return norms + lost * tf.reduce_sum(tf.add_n(squares), axis=1)


def _quadratic(x, matrices):
    """x^T M x for each row: x [rows, T], M [rows, T, T]."""
    return tf.reduce_sum(x * tf.linalg.matvec(matrices, x), axis=1)


def weighted(x, factors):
    """Returns factor * row for x, [rows, ...]: 0 where the factor is 0, whatever the row holds."""
    return tf.math.multiply_no_nan(x, _for_rows(factors, x))


def times(x, factors):
    """Returns factor * row for x, [rows, ...], whose rows are `cleaned`: faster than `weighted`."""
    return x * _for_rows(factors, x)


def _for_rows(factors, x):
    return tf.reshape(tf.cast(factors, x.dtype), [-1] + [1] * (x.shape.rank - 1))


def cleaned(x, finite):
    """Returns x, [rows, ...] or a list of these, with zeros where `finite`, [rows], is False."""

    def without_rows(x):
        shape = [-1] + [1] * (x.shape.rank - 1)
        return tf.where(tf.reshape(finite, shape), x, tf.zeros([], x.dtype))

    def without():
        return tf.nest.map_structure(without_rows, x)

    counts = [part.shape.num_elements() for part in tf.nest.flatten(x)]
    if None not in counts and sum(counts) <= _FEW_NUMBERS:
        return without()
    # Nearly always all rows are finite, and a copy of every activation would cost time.
    return tf.cond(tf.reduce_all(finite), lambda: x, without)


def in_chunks(function, tensors, size):
    """`function` of a few rows at a time, [rows, ...], so that its intermediate results stay small.

    Each call gets at least `size` rows of the tuple `tensors`, and less than twice as many where
    that makes no more than 16 calls.
    """
    rows = tensors[0].shape[0]
    # Each chunk is a part of the graph of its own, which takes time to trace.
    chunks = 1 if rows is None else max(min(rows // max(size, 1), _MOST_CHUNKS), 1)
    parts, begin = [], 0
    for i in range(chunks):
        part = tensors
        if chunks > 1:
            end = begin + rows // chunks + (i < rows % chunks)
            part = [x[begin:end] for x in tensors]
            begin = end
        # In turn, and not before the last tensor is there: the first ones are often activations of
        # the forward pass, and what is made of them that early would be held until this point.
        with tf.control_dependencies([tensors[-1], *parts[-1:]]):
            parts.append(function(*map(tf.identity, part)))
    return parts[0] if chunks == 1 else tf.concat(parts, axis=0)
