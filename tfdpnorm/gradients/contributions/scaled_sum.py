"""Per-example gradients that are outer products with one factor for each weight."""

import numpy as np
import tensorflow as tf

from tfdpnorm.gradients.contributions.arithmetic import widened
from tfdpnorm.gradients.contributions.contribution import Contribution, OuterSum
from tfdpnorm.gradients.contributions.row_sums import IN_BLOCKS

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
        squares = (tf.square(tf.cast(x, tf.float64)) for x in (self._a, self._b, self._scale))
        a, b, scale = squares
        norms = tf.reduce_sum(b * tf.matmul(a, scale), axis=1)
        without = tf.reduce_sum(a, axis=1) * tf.reduce_sum(b, axis=1)
        norms = tf.where(without < _LONGEST, norms, tf.constant(np.inf, tf.float64))
        # Rounded to float32 it must not be less, nor be lost where it is too small for that.
        dtype = self._a.dtype.as_numpy_dtype
        unit, least = np.finfo(dtype).eps, np.finfo(dtype).tiny
        return tf.cast(norms * (1 + 16 * unit) + least, dtype)

    def weighted_sum(self, factors, finite, sums=IN_BLOCKS):
        # S is multiplied with the sum: one rounding more than `sums` counts otherwise.
        total = super().weighted_sum(factors, finite, sums.of_longer())
        return tf.cast(total, tf.float64) * tf.cast(self._scale, tf.float64)
