"""Per-example gradients of one variable, in the forms in which they are cheapest to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.arithmetic import (
    added_in_float64,
    cleaned,
    gram_norms,
    sum_of_squares,
    times,
)
from tfdpnorm.gradients.contributions.row_sums import IN_BLOCKS
from tfdpnorm.keras_compat.devices_and_precision import in_xla, takes_forms_of_gpus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfdpnorm.gradients.contributions.row_sums import RowSums


def over_positions(x):
    """Sums [rows, *positions, channels], or [rows, channels], over positions: [rows, channels]."""
    if x.shape.rank == 2:
        return x
    flat = flat_positions(x)
    if takes_forms_of_gpus() or in_xla():
        return tf.reduce_sum(flat, axis=1)  # a GPU may round products to TensorFloat-32
    # A product with ones: TensorFlow's sum takes up to three times as long where channels are few.
    ones = tf.ones([size(flat, 0), 1, size(flat, 1)], flat.dtype)
    return tf.squeeze(tf.matmul(ones, flat), 1)


def size(x, axis):
    """The size of an axis: a number where it is known, else a tensor."""
    return tf.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]


def flat_positions(x):
    """[rows, *positions, channels] as [rows, T, channels]."""
    count = x.shape[1:-1].num_elements()
    if count is None:
        count = tf.reduce_prod(tf.shape(x)[1:-1])
    return tf.reshape(x, [size(x, 0), count, x.shape[-1]])


class Contribution:
    """The contribution of a layer's calls to the per-example gradients of one variable.

    A subclass implements `instantiated`, and overrides what it can do at a lower cost. All its
    numbers are float32, float64 for float64 layers, whatever the layer computes in.
    """

    def instantiated(self) -> tf.Tensor:
        """Returns the gradients as they are, [rows, *variable.shape]."""
        raise NotImplementedError

    def merged(self, other: Contribution) -> Contribution:
        """The gradients of two calls of the layer, added *before* any norm: it has cross terms."""
        return Instantiated(self.instantiated() + other.instantiated())

    def grouped(self, count: int) -> Contribution:
        """The gradients of examples that take `count` consecutive rows each: their sums."""
        return Instantiated(self.instantiated()).grouped(count)

    def scaled(self, factor: tf.Tensor) -> Contribution:
        """The gradients of w where these are of a number times w, and that number is `factor`."""
        gradients = self.instantiated()
        return Instantiated(gradients * tf.cast(factor, gradients.dtype))

    def of_factor(self, place: int, other: tf.Tensor) -> Contribution:
        """The gradients of the left or right factor of a matrix product, `place` 0 or 1.

        These are of the product; `other` is its other factor.
        """
        gradients = self.instantiated()
        other = tf.cast(other, gradients.dtype)
        if place == 0:
            return Instantiated(tf.matmul(gradients, other, transpose_b=True))
        return Instantiated(tf.matmul(other[tf.newaxis], gradients, transpose_a=True))

    def squared_norms(self) -> tf.Tensor:
        """Returns [rows]. Called once, before `weighted_sum`, and may keep what that can use."""
        return Instantiated(self.instantiated()).squared_norms()

    def weighted_sum(
        self, factors: tf.Tensor, finite: tf.Tensor, sums: RowSums = IN_BLOCKS
    ) -> tf.Tensor:
        """Returns the sum over rows of factor * gradient, of the variable's shape.

        `factors`, [rows], are 0 where a row does not count, or may hold infinities or NaN
        (`finite`, bool [rows], is False). 0 * inf is NaN: use `weighted` and `cleaned`. `sums` adds
        up the rows, perhaps in float64.
        """
        return Instantiated(self.instantiated()).weighted_sum(factors, finite, sums)


class Instantiated(Contribution):
    """Per-example gradients as they are.

    Args:
        gradients: [rows, *variable.shape].
    """

    def __init__(self, gradients: tf.Tensor) -> None:
        self._gradients = widened(gradients)

    def instantiated(self) -> tf.Tensor:
        return self._gradients

    def grouped(self, count: int) -> Instantiated:
        shape = [-1, count, *self._gradients.shape[1:]]
        return Instantiated(tf.reduce_sum(tf.reshape(self._gradients, shape), axis=1))

    def squared_norms(self) -> tf.Tensor:
        return sum_of_squares(self._gradients)

    def weighted_sum(
        self, factors: tf.Tensor, finite: tf.Tensor, sums: RowSums = IN_BLOCKS
    ) -> tf.Tensor:
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

    def __init__(self, a: tf.Tensor, b: tf.Tensor, shape: Sequence[int] | tf.TensorShape) -> None:
        self._a = widened(a)
        self._b = widened(b)
        self._shape = shape
        self._matrices = None

    @property
    def _one_position(self):
        return self._a.shape.rank == 2

    def with_positions(self) -> tuple[tf.Tensor, tf.Tensor]:
        """The pair (a, b), [rows, T, d] and [rows, T, p]."""
        if self._one_position:
            return self._a[:, tf.newaxis, :], self._b[:, tf.newaxis, :]
        return self._a, self._b

    def is_of(self, *shape: int) -> bool:
        """Whether the variable is a matrix of `shape`, (d, p)."""
        return list(shape) == list(self._shape) == [self._a.shape[-1], self._b.shape[-1]]

    def merged(self, other: Contribution) -> Contribution:
        if not isinstance(other, OuterSum):
            return other.merged(self)
        (a, b), (other_a, other_b) = self.with_positions(), other.with_positions()
        return OuterSum(tf.concat([a, other_a], 1), tf.concat([b, other_b], 1), self._shape)

    def scaled(self, factor: tf.Tensor) -> OuterSum:
        return OuterSum(self._a, self._b * tf.cast(factor, self._b.dtype), self._shape)

    def of_factor(self, place: int, other: tf.Tensor) -> Contribution:
        a, b = self._a, self._b
        if not self.is_of(*self._shape):
            return super().of_factor(place, other)
        other = tf.cast(other, b.dtype)
        if place == 0:
            return OuterSum(a, tf.matmul(b, other, transpose_b=True), [a.shape[-1], other.shape[0]])
        return OuterSum(tf.matmul(a, other), b, [other.shape[1], b.shape[-1]])

    def transposed(self) -> OuterSum:
        """The gradients of a matrix where these are of its transpose."""
        return OuterSum(self._b, self._a, list(self._shape)[::-1])

    def grouped(self, count: int) -> OuterSum:
        def regrouped(x):
            positions = tf.shape(x)[1] if x.shape[1] is None else x.shape[1]
            return tf.reshape(x, [-1, count * positions, x.shape[2]])

        a, b = map(regrouped, self.with_positions())
        return OuterSum(a, b, self._shape)

    def instantiated(self) -> tf.Tensor:
        a, b = self.with_positions()
        return tf.reshape(tf.matmul(a, b, transpose_a=True), [-1, *self._shape])

    def squared_norms(self) -> tf.Tensor:
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

    def weighted_sum(
        self, factors: tf.Tensor, finite: tf.Tensor, sums: RowSums = IN_BLOCKS
    ) -> tf.Tensor:
        if self._matrices is not None:
            return sums.weighted(cleaned(self._matrices, finite), factors)
        a, b = self.with_positions()
        a, b = cleaned([a, b], finite)
        total = sums.products(a, times(b, factors))
        return tf.reshape(total, self._shape)

    def _gram_is_cheaper(self):
        positions, d, p = self._a.shape[1], self._a.shape[2], self._b.shape[2]
        if positions is None:
            return False
        return positions * positions * (d + p) < positions * d * p


# --- weights that consist of blocks ---


class BlockOuterSum(Contribution):
    """Gradients whose blocks are sums of outer products: g_ik = sum_t a_ikt b_ikt^T.

    The block-diagonal form of `OuterSum`, with the same choice of how to take the norm: a is [rows,
    blocks, T, d], b [rows, blocks, T, p]. The numbers of a gradient, in the order (block, d, p),
    are split into `sizes`, permuted by `order` and reshaped to `shape`, that of the variable.
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

    def instantiated(self) -> tf.Tensor:
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
        a, b = cleaned([self._a, self._b], finite)
        total = sums.products(a, times(b, factors))
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


# --- weights that are broadcast ---


def bias_gradients(b):
    """The contribution of a bias, from the outputs' gradients b [rows, *positions, channels]."""
    return Instantiated(over_positions(widened(b)))


def summed_to(values, shape):
    """The contribution of a variable of `shape` that was broadcast to the `values`, [rows, ...].

    The values are the gradient with respect to each position; `shape` has no axis of rows.
    """
    added = values.shape.rank - len(shape)
    stretched = [added + i for i, size in enumerate(shape) if size == 1]
    summed = tf.reduce_sum(widened(values), axis=[*range(1, added), *stretched])
    return Instantiated(tf.reshape(summed, [-1, *shape]))
