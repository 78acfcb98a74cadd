"""Per-example gradients that are outer products with one factor for each weight."""

import numpy as np
import tensorflow as tf

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.contribution import Contribution, OuterSum
from tfdpnorm.gradients.contributions.row_sums import IN_BLOCKS, RowSums
from tfdpnorm.gradients.rounded_sums import LONGER

# Of a squared norm without the factors: a longer gradient might not be a float32 number until the
# factors have made it smaller.
_LONGEST = 1e60


class ScaledOuterSum(OuterSum):
    """Gradients g_i = S * (a_i b_i^T), with S a factor for each weight and one position.

    The squared norm is sum_p b_p^2 (a^2 S^2)_p, a product of matrices, so that no gradient of a row
    is held. It is taken in float64, since squares of squares leave the range of float32.

    Args:
        a: [rows, d], inputs of the weight.
        b: [rows, p], gradients of its outputs.
        scale: S, [d, p], the same for all rows.
    """

    def __init__(self, a, b, scale):
        super().__init__(a, b, scale.shape)
        self._scale = widened(scale)

    def merged(self, other):
        return Contribution.merged(self, other)

    def grouped(self, count):
        return Contribution.grouped(self, count)

    def instantiated(self):
        return super().instantiated() * self._scale

    def squared_norms(self):
        return _rounded_up(self.wide_norms(), self._a.dtype)

    def wide_norms(self):
        """The squared norms in float64, [rows], not rounded up yet."""
        squares = (tf.square(tf.cast(x, tf.float64)) for x in (self._a, self._b, self._scale))
        a, b, scale = squares
        norms = tf.reduce_sum(b * tf.matmul(a, scale), axis=1)
        without = tf.reduce_sum(a, axis=1) * tf.reduce_sum(b, axis=1)
        return tf.where(without < _LONGEST, norms, tf.constant(np.inf, tf.float64))

    def weighted_sum(self, factors, finite, sums=IN_BLOCKS):
        # S is multiplied with the sum: one rounding more than `sums` counts otherwise.
        total = super().weighted_sum(factors, finite, sums.of_longer())
        return tf.cast(total, tf.float64) * tf.cast(self._scale, tf.float64)


class TiedOuterSum(Contribution):
    """Gradients g_i = a_i b_i^T + S * (a_i^2 c_i^T), with S a factor for each weight.

    The norm is that of both products and 2 sum_p b_p c_p (a^3 S)_p, in float64. They may cancel.
    Each is rounded by itself, so a share of both norms is added to that of the sum; and it is taken
    to be at least 1 / `LONGER` of both together, so that no part of a clipped row is longer than
    `LONGER` C. Rows are added up in float64.

    Args:
        a: [rows, d].
        b: [rows, p].
        c: [rows, p].
        scale: S, [d, p], the same for all rows.
    """

    def __init__(self, a, b, c, scale):
        self._a, self._b, self._c, self._scale = map(widened, (a, b, c, scale))
        self._squares = tf.square(self._a)
        self._parts = [
            OuterSum(self._a, self._b, scale.shape),
            ScaledOuterSum(self._squares, self._c, self._scale),
        ]

    def instantiated(self):
        return tf.add_n([part.instantiated() for part in self._parts])

    def squared_norms(self):
        tensors = (self._a, self._squares, self._b, self._c, self._scale)
        a, squares, b, c, scale = (tf.cast(x, tf.float64) for x in tensors)
        first = tf.reduce_sum(tf.square(a), axis=1) * tf.reduce_sum(tf.square(b), axis=1)
        second = self._parts[1].wide_norms()
        cross = tf.reduce_sum(b * c * tf.matmul(a * squares, scale), axis=1)
        both = tf.sqrt(first) + tf.sqrt(second)
        # What float64 may take away: sums of up to 2^20 terms, each relative to both norms.
        exact = tf.maximum(first + 2 * cross + second, 0.0) + 2.0**-32 * tf.square(both)
        unit = np.finfo(self._a.dtype.as_numpy_dtype).eps
        norms = tf.maximum(tf.sqrt(exact) + 8 * unit * both, both / LONGER)
        return _rounded_up(tf.square(norms), self._a.dtype)

    def weighted_sum(self, factors, finite, sums=IN_BLOCKS):
        sums = RowSums(None)
        totals = [part.weighted_sum(factors, finite, sums) for part in self._parts]
        return tf.add_n([tf.cast(total, tf.float64) for total in totals])


def _rounded_up(norms, dtype):
    """Squared norms [rows], float64, in another dtype: not less, nor 0 where they are tiny."""
    unit, least = np.finfo(dtype.as_numpy_dtype).eps, np.finfo(dtype.as_numpy_dtype).tiny
    return tf.cast(norms * (1 + 16 * unit) + least, dtype)
