"""Per-example gradients of one variable, in the form in which they are cheapest to keep."""

import tensorflow as tf


class Instantiated:
    """Per-example gradients as they are: [rows, *variable.shape].

    Args:
        gradients: The tensor.
    """

    def __init__(self, gradients):
        self._gradients = tf.cast(gradients, _wide(gradients.dtype))

    def merged(self, other):
        """The gradients of two calls of the layer together."""
        return Instantiated(self._gradients + other.instantiated())

    def instantiated(self):
        """Returns [rows, *variable.shape]."""
        return self._gradients

    def squared_norms(self):
        """Returns [rows]."""
        axes = list(range(1, self._gradients.shape.rank))
        return tf.reduce_sum(tf.square(self._gradients), axis=axes)

    def weighted_sum(self, factors, finite):
        """Returns the sum over rows of factor * gradient, rows that are not `finite` left out."""
        shape = [-1] + [1] * (self._gradients.shape.rank - 1)
        clean = tf.where(tf.reshape(finite, shape), self._gradients, 0.0)
        return tf.tensordot(factors, clean, axes=1)


class OuterSum:
    """Gradients that are sums of outer products over positions: g_i = sum_t a_it b_it^T.

    The squared norm is had either from the instantiated [d, p] matrix of each row, or from the
    positions' Gram matrices, ||g_i||^2 = sum_ts (a_it . a_is) (b_it . b_is); the cheaper is taken.

    Args:
        a: [rows, d, T], inputs of the weight, positions last; or [rows, d] for one position.
        b: [rows, T, p], gradients of its outputs; or [rows, p].
        shape: Shape of the variable, of d * p numbers in the order (d, p).
    """

    def __init__(self, a, b, shape):
        self._a = tf.cast(a, _wide(a.dtype))
        self._b = tf.cast(b, _wide(b.dtype))
        self._shape = shape
        self._matrices = None

    @property
    def _one_position(self):
        return self._a.shape.rank == 2

    def _with_positions(self):
        if self._one_position:
            return self._a[:, :, tf.newaxis], self._b[:, tf.newaxis, :]
        return self._a, self._b

    def merged(self, other):
        """The gradients of two calls of the layer together: the positions of both."""
        if isinstance(other, Instantiated):
            return other.merged(self)
        (a, b), (other_a, other_b) = self._with_positions(), other._with_positions()
        return OuterSum(tf.concat([a, other_a], 2), tf.concat([b, other_b], 1), self._shape)

    def instantiated(self):
        """Returns [rows, *variable.shape]."""
        a, b = self._with_positions()
        return tf.reshape(tf.matmul(a, b), [-1, *self._shape])

    def squared_norms(self):
        """Returns [rows]."""
        if self._one_position:
            return _squares(self._a, [1]) * _squares(self._b, [1])
        if self._gram_is_cheaper():
            gram_a = tf.matmul(self._a, self._a, transpose_a=True)
            gram_b = tf.matmul(self._b, self._b, transpose_b=True)
            return tf.reduce_sum(gram_a * gram_b, axis=[1, 2])
        self._matrices = tf.matmul(self._a, self._b)
        return _squares(self._matrices, [1, 2])

    def weighted_sum(self, factors, finite):
        """Returns the sum over rows of factor * gradient, rows that are not `finite` left out."""
        if self._one_position:
            a = tf.where(finite[:, tf.newaxis], self._a, 0.0)
            b = tf.where(finite[:, tf.newaxis], self._b, 0.0) * factors[:, tf.newaxis]
            total = tf.matmul(a, b, transpose_a=True)
        elif self._matrices is not None:
            clean = tf.where(finite[:, tf.newaxis, tf.newaxis], self._matrices, 0.0)
            total = tf.tensordot(factors, clean, axes=1)
        else:
            mask = finite[:, tf.newaxis, tf.newaxis]
            a = tf.where(mask, self._a, 0.0)
            b = tf.where(mask, self._b, 0.0) * factors[:, tf.newaxis, tf.newaxis]
            total = tf.einsum("ndt,ntp->dp", a, b)
        return tf.reshape(total, self._shape)

    def _gram_is_cheaper(self):
        d, positions, p = self._a.shape[1], self._a.shape[2], self._b.shape[2]
        if positions is None:
            return False
        return positions * positions * (d + p) < positions * d * p


def _squares(x, axes):
    return tf.reduce_sum(tf.square(x), axis=axes)


def _wide(dtype):
    """Norms and sums are taken in float32 whatever the layer computes in, float64 in float64."""
    return dtype if dtype == tf.float64 else tf.float32
