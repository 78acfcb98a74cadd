"""Per-example gradients of weights that consist of blocks, each with inputs of its own."""

import tensorflow as tf

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.arithmetic import (
    added_in_float64,
    cleaned,
    gram_norms,
    sum_of_squares,
    weighted,
)
from tfdpnorm.gradients.contributions.contribution import Contribution
from tfdpnorm.gradients.contributions.positions import size
from tfdpnorm.gradients.contributions.row_sums import IN_BLOCKS


class BlockOuterSum(Contribution):
    """Gradients whose blocks are sums of outer products: g_ik = sum_t a_ikt b_ikt^T.

    The block-diagonal form of `OuterSum`, with the same choice of how to take the norm.

    Args:
        a: [rows, blocks, T, d], inputs of the weight.
        b: [rows, blocks, T, p], gradients of its outputs.
        sizes: What the numbers of a gradient, in the order (block, d, p), are split into.
        order: Permutation of `sizes` that gives the order of the variable.
        shape: Shape of the variable.
    """

    def __init__(self, a, b, sizes, order, shape):
        self._a = widened(a)
        self._b = widened(b)
        self._layout = sizes, order, shape
        self._matrices = None

    def merged(self, other):
        if not isinstance(other, BlockOuterSum) or other._layout != self._layout:
            return super().merged(other)
        a, b = tf.concat([self._a, other._a], 2), tf.concat([self._b, other._b], 2)
        return BlockOuterSum(a, b, *self._layout)

    def grouped(self, count):
        def regrouped(x):
            split = tf.reshape(x, tf.concat([[-1, count], tf.shape(x)[1:]], 0))
            split = tf.transpose(split, [0, 2, 1, 3, 4])
            return tf.reshape(split, [-1, x.shape[1], count * size(x, 2), x.shape[3]])

        return BlockOuterSum(regrouped(self._a), regrouped(self._b), *self._layout)

    def instantiated(self):
        return self._in_order(tf.matmul(self._a, self._b, transpose_a=True))

    def squared_norms(self):
        if self._a.shape[2] == 1:
            squares = [sum_of_squares(x, axis=[-1]) for x in (self._a, self._b)]
            return added_in_float64(squares[0] * squares[1], axis=[1, 2])
        if self._gram_is_cheaper():
            grams = [tf.matmul(x, x, transpose_b=True) for x in (self._a, self._b)]
            blocks, positions, d = self._a.shape[1:]
            grams = [tf.reshape(gram, [-1, positions, positions]) for gram in grams]
            norms = gram_norms(*grams, (d, self._b.shape[3]))
            return added_in_float64(tf.reshape(norms, [-1, blocks]), axis=1)
        self._matrices = self.instantiated()
        return sum_of_squares(self._matrices)

    def weighted_sum(self, factors, finite, sums=IN_BLOCKS):
        if self._matrices is not None:
            return sums.weighted(cleaned(self._matrices, finite), factors)
        total = sums.products(cleaned(self._a, finite), weighted(self._b, factors))
        return self._in_order(total[tf.newaxis])[0]

    def _in_order(self, matrices):
        """Matrices [n, blocks, d, p] in the order of the variable, [n, *shape]."""
        sizes, order, shape = self._layout
        split = tf.reshape(matrices, [-1, *sizes])
        return tf.reshape(tf.transpose(split, [0, *(1 + i for i in order)]), [-1, *shape])

    def _gram_is_cheaper(self):
        positions, d, p = *self._a.shape[2:], self._b.shape[3]
        if positions is None:
            return False
        return positions * positions * (d + p) < positions * d * p
