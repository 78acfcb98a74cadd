"""Per-example gradients of one variable, in the form in which they are cheapest to keep."""

import numpy as np
import tensorflow as tf

from tfdpnorm.keras_compat.devices import in_xla

_MOST_CHUNKS = 16


class Contribution:
    """What calls of a layer contribute to the per-example gradients of one variable.

    A subclass gives `instantiated`, and whatever it can do for less than that takes. All its
    numbers are float32, float64 for float64 layers, whatever the layer computes in.
    """

    def instantiated(self):
        """Returns the gradients as they are, [rows, *variable.shape]."""
        raise NotImplementedError

    def merged(self, other):
        """The gradients of two calls of the layer together, another contribution.

        They are added *before* any norm is taken: the norm of a sum has cross terms.
        """
        return Instantiated(self.instantiated() + other.instantiated())

    def grouped(self, count):
        """The gradients of examples that take `count` consecutive rows each: their sums."""
        return Instantiated(self.instantiated()).grouped(count)

    def squared_norms(self):
        """Returns [rows]. Called once, before `weighted_sum`, and may keep what that can use."""
        return Instantiated(self.instantiated()).squared_norms()

    def weighted_sum(self, factors, finite):
        """Returns the sum over rows of factor * gradient, of the variable's shape.

        Args:
            factors: [rows]; 0 where a row does not count.
            finite: [rows], bool: False for rows that may hold what is not finite. Their factors
                are 0, and 0 * inf is NaN: use `weighted` and `cleaned`.
        """
        return Instantiated(self.instantiated()).weighted_sum(factors, finite)


class Instantiated(Contribution):
    """Per-example gradients as they are.

    Args:
        gradients: [rows, *variable.shape].
    """

    def __init__(self, gradients):
        self._gradients = widened(gradients)

    def instantiated(self):
        return self._gradients

    def grouped(self, count):
        shape = [-1, count, *self._gradients.shape[1:]]
        return Instantiated(tf.reduce_sum(tf.reshape(self._gradients, shape), axis=1))

    def squared_norms(self):
        return sum_of_squares(self._gradients)

    def weighted_sum(self, factors, finite):
        return tf.tensordot(factors, cleaned(self._gradients, finite), axes=1)


class OuterSum(Contribution):
    """Gradients that are sums of outer products over positions: g_i = sum_t a_it b_it^T.

    The squared norm is had either from the instantiated [d, p] matrix of each row, or from the
    positions' Gram matrices, ||g_i||^2 = sum_ts (a_it . a_is) (b_it . b_is); the cheaper is taken.

    Args:
        a: [rows, T, d], inputs of the weight; or [rows, d] for one position.
        b: [rows, T, p], gradients of its outputs; or [rows, p].
        shape: Shape of the variable, of d * p numbers in the order (d, p).
    """

    def __init__(self, a, b, shape):
        self._a = widened(a)
        self._b = widened(b)
        self._shape = shape
        self._matrices = None

    @property
    def _one_position(self):
        return self._a.shape.rank == 2

    def _with_positions(self):
        if self._one_position:
            return self._a[:, tf.newaxis, :], self._b[:, tf.newaxis, :]
        return self._a, self._b

    def merged(self, other):
        if not isinstance(other, OuterSum):
            return other.merged(self)
        (a, b), (other_a, other_b) = self._with_positions(), other._with_positions()
        return OuterSum(tf.concat([a, other_a], 1), tf.concat([b, other_b], 1), self._shape)

    def grouped(self, count):
        def regrouped(x):
            positions = tf.shape(x)[1] if x.shape[1] is None else x.shape[1]
            return tf.reshape(x, [-1, count * positions, x.shape[2]])

        a, b = map(regrouped, self._with_positions())
        return OuterSum(a, b, self._shape)

    def instantiated(self):
        a, b = self._with_positions()
        return tf.reshape(tf.matmul(a, b, transpose_a=True), [-1, *self._shape])

    def squared_norms(self):
        if self._one_position:
            return sum_of_squares(self._a) * sum_of_squares(self._b)
        if self._gram_is_cheaper():
            return gram_norms(
                tf.matmul(self._a, self._a, transpose_b=True),
                tf.matmul(self._b, self._b, transpose_b=True),
            )
        self._matrices = self.instantiated()
        return sum_of_squares(self._matrices)

    def weighted_sum(self, factors, finite):
        if self._matrices is not None:
            return tf.tensordot(factors, cleaned(self._matrices, finite), axes=1)
        a, b = cleaned(self._a, finite), weighted(self._b, factors)
        if not self._one_position:
            a, b = (tf.reshape(x, tf.stack([-1, tf.shape(x)[-1]])) for x in (a, b))
        return tf.reshape(tf.matmul(a, b, transpose_a=True), self._shape)

    def _gram_is_cheaper(self):
        positions, d, p = self._a.shape[1], self._a.shape[2], self._b.shape[2]
        if positions is None:
            return False
        return positions * positions * (d + p) < positions * d * p


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

    A factor of a gradient that is too small to be squared (1e-19 and less in float32) may stand
    beside one of 1e19: without this, their product would pass for a gradient of norm 0.
    """
    return 2**24 * np.finfo(dtype.as_numpy_dtype).tiny


def gram_norms(gram_a, gram_b, removed=0.0):
    """The squared norms of g_i = sum_t a_it b_it^T from Gram matrices over the positions t.

    Where the outer products cancel, ||g||^2 is a small difference of large numbers, and rounding
    could make it too small, which would let a row exceed the clip. Therefore what rounding can take
    away is added: about the precision times sum_t ||a_t||^2 sum_t ||b_t||^2, which is no less than
    the sum of the absolute values of all terms.

    Args:
        gram_a: [rows, T, T], (a_t . a_s).
        gram_b: Likewise for b.
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

    # Nearly always there is nothing to do, and a copy of every activation would cost.
    return tf.cond(tf.reduce_all(finite), lambda: x, without)


def in_chunks(function, tensors, size):
    """`function` of a few rows after another, so that what it makes on its way is small.

    Args:
        function: Function from tensors [rows, ...] to one tensor [rows, ...].
        tensors: Tuple of tensors.
        size: Rows for each call: at least this many, less than twice as many where that makes no
            more than 16 calls.

    Returns:
        [rows, ...]
    """
    rows = tensors[0].shape[0]
    # Every chunk is in the graph by itself, and takes its time to trace.
    chunks = 1 if rows is None else max(min(rows // max(size, 1), _MOST_CHUNKS), 1)
    parts, begin = [], 0
    for i in range(chunks):
        part = tensors
        if chunks > 1:
            end = begin + rows // chunks + (i < rows % chunks)
            part = [x[begin:end] for x in tensors]
            begin = end
        # In turn, and not before the last tensor is there: the first ones are often activations of
        # the forward pass, and what is made of them there would be held to the end of the step.
        with tf.control_dependencies([tensors[-1], *parts[-1:]]):
            parts.append(function(*map(tf.identity, part)))
    return parts[0] if chunks == 1 else tf.concat(parts, axis=0)
