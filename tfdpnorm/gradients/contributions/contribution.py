"""Per-example gradients of one variable, in the form in which they are cheapest to keep."""

import tensorflow as tf

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.arithmetic import (
    cleaned,
    gram_norms,
    sum_of_squares,
    weighted,
)
from tfdpnorm.gradients.contributions.row_sums import IN_BLOCKS


class Contribution:
    """What calls of a layer contribute to the per-example gradients of one variable.

    A subclass implements `instantiated`, and overrides what it can do at a lower cost. All its
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

    def weighted_sum(self, factors, finite, sums=IN_BLOCKS):
        """Returns the sum over rows of factor * gradient, of the variable's shape.

        Args:
            factors: [rows]; 0 where a row does not count.
            finite: [rows], bool: False for rows that may hold infinities or NaN. Their factors are
                0, and 0 * inf is NaN: use `weighted` and `cleaned`.
            sums: `RowSums`, how rows are added up. The result may be float64.
        """
        return Instantiated(self.instantiated()).weighted_sum(factors, finite, sums)


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

    def weighted_sum(self, factors, finite, sums=IN_BLOCKS):
        return sums.weighted(cleaned(self._gradients, finite), factors)


class OuterSum(Contribution):
    """Gradients that are sums of outer products over positions: g_i = sum_t a_it b_it^T.

    The squared norm comes from the instantiated [d, p] matrix of each row, or from the Gram
    matrices over positions, ||g_i||^2 = sum_ts (a_it . a_is) (b_it . b_is), whichever is cheaper.

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
                (self._a.shape[2], self._b.shape[2]),
            )
        self._matrices = self.instantiated()
        return sum_of_squares(self._matrices)

    def weighted_sum(self, factors, finite, sums=IN_BLOCKS):
        if self._matrices is not None:
            return sums.weighted(cleaned(self._matrices, finite), factors)
        a, b = self._with_positions()
        total = sums.products(cleaned(a, finite), weighted(b, factors))
        return tf.reshape(total, self._shape)

    def _gram_is_cheaper(self):
        positions, d, p = self._a.shape[1], self._a.shape[2], self._b.shape[2]
        if positions is None:
            return False
        return positions * positions * (d + p) < positions * d * p
