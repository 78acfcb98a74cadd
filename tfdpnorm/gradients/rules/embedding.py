"""The rule of embeddings."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.arithmetic import gram_norms, sum_of_squares, weighted
from tfdpnorm.gradients.contributions.contribution import Contribution, OuterSum, size
from tfdpnorm.gradients.contributions.row_sums import IN_BLOCKS, IN_FLOAT64
from tfdpnorm.gradients.rules.registry import Rule, register_rule
from tfdpnorm.keras_compat.devices_and_precision import in_xla


@register_rule(keras.layers.Embedding)
class EmbeddingRule(Rule):
    """z is the vectors found: the table's gradient is the sum over t of b_t in the row of id_t."""

    def applies(self, layer):
        return not getattr(layer, "sparse", False)

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        if not isinstance(inputs, tf.Tensor):
            raise ValueError(
                f"Expected a dense tensor of ids in layer {layer.name!r}, got "
                f"{type(inputs).__name__}. Pad the ids to one length."
            )
        return watch(call(inputs, *args, **kwargs)), inputs

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        ids = tf.cast(remembered, remembered.dtype if remembered.dtype.is_integer else tf.int32)
        rows = size(ids, 0)
        ids, b = tf.reshape(ids, [rows, -1]), tf.reshape(b, [rows, -1, b.shape[-1]])
        return [(layer.embeddings, LookupSum(ids, b, layer.embeddings.shape))]


class LookupSum(Contribution):
    """Gradients of a table that is looked up: those of the vectors found, added up by id.

    This makes no copy of the table for each row, and no inner products of all pairs of positions:
    it first sums what one row has for one id, and squares of sums are no differences. `ids`, [rows,
    T], outside of the table add nothing; b, [rows, T, d], are the gradients of the vectors; `shape`
    is that of the table, (number of ids, d).
    """

    def __init__(self, ids, b, shape):
        self._ids = tf.cast(ids, tf.int64)
        self._b = widened(b)
        self.shape = shape
        self._by_id = None

    def merged(self, other):
        if isinstance(other, OuterSum) and other.is_of(*self.shape):
            return TiedSum(self, other)
        if not isinstance(other, LookupSum):
            return other.merged(self) if isinstance(other, TiedSum) else super().merged(other)
        ids = tf.concat([self._ids, other._ids], 1)
        return LookupSum(ids, tf.concat([self._b, other._b], 1), self.shape)

    def grouped(self, count):
        ids = tf.reshape(self._ids, [-1, count * size(self._ids, 1)])
        b = tf.reshape(self._b, [-1, count * size(self._b, 1), self._b.shape[2]])
        return LookupSum(ids, b, self.shape)

    def scaled(self, factor):
        return LookupSum(self._ids, self._b * tf.cast(factor, self._b.dtype), self.shape)

    def of_factor(self, place, other):
        other = tf.cast(other, self._b.dtype)
        if place == 0:
            b = tf.matmul(self._b, other, transpose_b=True)
            return LookupSum(self._ids, b, [self.shape[0], other.shape[0]])
        is_there = tf.cast(self._valid_ids() >= 0, self._b.dtype)[..., tf.newaxis]
        found = tf.gather(other, tf.maximum(self._valid_ids(), 0)) * is_there
        return OuterSum(found, self._b, [other.shape[1], self.shape[1]])

    def instantiated(self):
        places, valid = self._places()
        rows = size(self._ids, 0)
        summed = self._summed(tf.where(valid, places, -1), rows * self.shape[0])
        return tf.reshape(summed, [rows, *self.shape])

    def squared_norms(self):
        if in_xla():
            # XLA needs static sizes, and the number of different ids is known only at run time.
            products = tf.matmul(self._b, self._b, transpose_b=True)
            return gram_norms(self._alike(), products, (0, self._b.shape[-1]))
        places, valid = self._places()
        found, index = tf.unique(places)
        sums = self._summed(tf.where(valid, index, -1), tf.size(found))
        rows, ids = found // self.shape[0], found % self.shape[0]
        self._by_id = sums, rows, ids
        squares = sum_of_squares(sums)
        # In float64: a row may have many ids, and small squares added to a large one would be lost.
        of_rows = tf.math.unsorted_segment_sum(
            tf.cast(squares, tf.float64), rows, size(self._ids, 0)
        )
        return tf.cast(of_rows, squares.dtype)

    def weighted_sum(self, factors, finite, sums=IN_BLOCKS):
        if self._by_id is None:
            return sums.by_id(*self.vectors(factors), self.shape[0], rows=None)
        vectors, rows, ids = self._by_id
        vectors = weighted(vectors, tf.gather(factors, rows))
        return sums.by_id(vectors, ids, self.shape[0], rows=self._ids.shape[0])

    def vectors(self, factors):
        """The pair of factor * b, [rows * T, d], and ids, -1 for those outside of the table."""
        b = weighted(self._b, factors)
        return tf.reshape(b, [-1, b.shape[2]]), tf.reshape(self._valid_ids(), [-1])

    def _places(self):
        """For each b, its place in the tables of all rows in a row, and whether it has one."""
        valid = (self._ids >= 0) & (self._ids < self.shape[0])
        rows = tf.range(tf.shape(self._ids, tf.int64)[0])[:, tf.newaxis]
        places = rows * self.shape[0] + tf.where(valid, self._ids, 0)
        return tf.reshape(places, [-1]), tf.reshape(valid, [-1])

    def gram_with(self, outer):
        """Inner products over positions, of this and then of an `OuterSum`: A and B (`gram_norms`).

        This is one too, of unit vectors a_t = e_(id_t), or zeros for ids outside of the table.
        """
        a, b = outer.with_positions()
        ids, zero = self._valid_ids(), tf.zeros([], b.dtype)
        found = tf.gather(a, tf.maximum(ids, 0), axis=2, batch_dims=1)  # [rows, T of outer, T]
        found = tf.where((ids >= 0)[:, tf.newaxis, :], found, zero)
        of_a = tf.matmul(a, a, transpose_b=True)
        upper = tf.concat([self._alike(), tf.linalg.matrix_transpose(found)], 2)
        both = tf.concat([self._b, b], 1)
        grams = tf.concat([upper, tf.concat([found, of_a], 2)], 1)
        return grams, tf.matmul(both, both, transpose_b=True)

    def _alike(self):
        """1 where two positions of a row have the same id, and 0 where not, [rows, T, T]."""
        ids = self._valid_ids()
        alike = (ids[:, :, tf.newaxis] == ids[:, tf.newaxis, :]) & (ids >= 0)[:, tf.newaxis, :]
        return tf.cast(alike, self._b.dtype)

    def _valid_ids(self):
        """The ids, -1 for those outside of the table."""
        return tf.where((self._ids >= 0) & (self._ids < self.shape[0]), self._ids, -1)

    def _summed(self, segments, count):
        # Negative segments are dropped.
        b = tf.reshape(self._b, [-1, self._b.shape[2]])
        return tf.math.unsorted_segment_sum(b, segments, count)


class TiedSum(Contribution):
    """Gradients of a table that is looked up, and multiplied by at the end of the model.

    Args:
        lookup: `LookupSum`.
        outer: `OuterSum` of the same shape, (number of ids, d).
    """

    def __init__(self, lookup, outer):
        self._lookup, self._outer = lookup, outer

    def merged(self, other):
        if isinstance(other, TiedSum):
            return self.merged(other._lookup).merged(other._outer)
        if isinstance(other, LookupSum):
            return TiedSum(self._lookup.merged(other), self._outer)
        if isinstance(other, OuterSum) and other.is_of(*self._lookup.shape):
            return TiedSum(self._lookup, self._outer.merged(other))
        return super().merged(other)

    def grouped(self, count):
        return TiedSum(self._lookup.grouped(count), self._outer.grouped(count))

    def scaled(self, factor):
        return TiedSum(self._lookup.scaled(factor), self._outer.scaled(factor))

    def instantiated(self):
        return self._lookup.instantiated() + self._outer.instantiated()

    def squared_norms(self):
        a, b = self._outer.with_positions()
        return gram_norms(*self._lookup.gram_with(self._outer), (a.shape[2], b.shape[2]))

    def weighted_sum(self, factors, finite, sums=IN_BLOCKS):
        # Its parts may be longer than the whole, by more than rounding in float32 is charged for.
        # The table may be large: what is looked up is added in place, to one sum in float64.
        total = tf.cast(self._outer.weighted_sum(factors, finite, IN_FLOAT64), tf.float64)
        vectors, ids = self._lookup.vectors(factors)
        vectors = tf.where(ids[:, tf.newaxis] >= 0, tf.cast(vectors, tf.float64), 0.0)
        return tf.tensor_scatter_nd_add(total, tf.maximum(ids, 0)[:, tf.newaxis], vectors)
