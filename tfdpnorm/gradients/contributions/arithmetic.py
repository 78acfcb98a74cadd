"""Sums and norms over rows that rounding and numbers that are not finite cannot spoil."""

import numpy as np
import tensorflow as tf

from tfdpnorm.keras_compat.devices import in_xla

_MOST_CHUNKS = 16


def widened(x):
    """`x` in the dtype that norms and sums are taken in: float32, float64 for float64."""
    return tf.cast(x, x.dtype if x.dtype == tf.float64 else tf.float32)


def sum_of_squares(x, axis=None):
    """The squared L2 norm over `axis`, or of each row of x, [rows, ...]."""
    axis = list(range(1, x.shape.rank)) if axis is None else axis
    if in_xla():
        return tf.reduce_sum(tf.square(x), axis) + lost_squares(x.dtype)
    # By the norm: squaring x first would write a copy of it, and take twice as long.
    return tf.square(tf.math.reduce_euclidean_norm(x, axis)) + lost_squares(x.dtype)


def lost_squares(dtype):
    """At least what a sum of up to 2^24 squares may lose to underflow.

    One factor of a gradient may be too small to be squared (1e-19 and less in float32) while the
    other is 1e19: without this, their product would pass for a gradient of norm 0.
    """
    return 2**24 * np.finfo(dtype.as_numpy_dtype).tiny


def gram_norms(gram_a, gram_b, removed=0.0):
    """The squared norms of g_i = sum_t a_it b_it^T from Gram matrices over the positions t.

    Where the outer products cancel, ||g||^2 is a small difference of large numbers, and rounding
    could make it too small, which would let a row exceed the clip. Therefore this adds what
    rounding can take away: about the precision times sum_t ||a_t||^2 sum_t ||b_t||^2, which is at
    least the sum of the absolute values of all terms.

    Args:
        gram_a: [rows, T, T], (a_t . a_s).
        gram_b: [rows, T, T], (b_t . b_s).
        removed: [rows], squared norms of parts of g, at right angles to the rest, that are taken
            out of it.

    Returns:
        [rows].
    """
    norms = tf.reduce_sum(gram_a * gram_b, axis=[1, 2]) - removed
    lost = lost_squares(norms.dtype)
    a, b = tf.linalg.trace(gram_a) + lost, tf.linalg.trace(gram_b) + lost
    rounded = np.finfo(norms.dtype.as_numpy_dtype).eps * a * b
    return tf.maximum(norms, 0.0) + rounded + lost * (a + b)


def weighted(x, factors):
    """Returns factor * row for x, [rows, ...]: 0 where the factor is 0, whatever the row holds."""
    shape = [-1] + [1] * (x.shape.rank - 1)
    return tf.math.multiply_no_nan(x, tf.reshape(tf.cast(factors, x.dtype), shape))


def cleaned(x, finite):
    """Returns x, [rows, ...], with zeros in the rows that are not `finite`, [rows]."""

    def without():
        shape = [-1] + [1] * (x.shape.rank - 1)
        return tf.where(tf.reshape(finite, shape), x, tf.zeros([], x.dtype))

    # Nearly always all rows are finite, and a copy of every activation would cost time.
    return tf.cond(tf.reduce_all(finite), lambda: x, without)


def in_chunks(function, tensors, size):
    """`function` of a few rows at a time, so that its intermediate results stay small.

    Args:
        function: Function from tensors [rows, ...] to one tensor [rows, ...].
        tensors: Tuple of tensors.
        size: Rows for each call: at least this many, less than twice as many where that makes no
            more than 16 calls.

    Returns:
        [rows, ...]
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
