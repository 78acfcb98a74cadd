"""Sums over rows, computed so that their rounding has a bound that the noise can pay for.

Clipping bounds what one row adds to the exact sum. In the computed one a row also changes the
rounding of others (Casacuberta, Shoemate, Vadhan and Wagaman 2022). What it changes is bounded if
each row's vector has a norm of at most C *before* it is rounded into a sum, and goes through few
roundings. So vectors of one row are computed whole, from nothing but that row, and then added up in
blocks; where that would take too much time or memory, positions and rows are added up at once, in
float64. docs/exact_noise.md has the bound, `tfdpnorm.gradients.rounded_sums` its numbers.
"""

import dataclasses

import tensorflow as tf

from tfdpnorm.gradients.rounded_sums import BLOCKS_ADDED_AT_ONCE, ROWS_IN_A_BLOCK

_FEW_POSITIONS = 16  # for fewer, float64 takes less time than a matrix for each row
_MATRICES_BYTES = 32 * 2**20  # how much of the rows' matrices is held at once
_MOST_BLOCKS = 32  # each is a part of the graph of its own, which takes time to trace
_FUSED_TERMS = 2**20  # added up in float64 in one go


@dataclasses.dataclass(frozen=True)
class RowSums:
    """How rows are added up.

    Attributes:
        block: Rows that are added up in float32 in one go; None to add up in float64.
        block_of_longer: The same for vectors of rows that may be `LONGER` than C.
    """

    block: int | None = ROWS_IN_A_BLOCK[0]
    block_of_longer: int | None = None

    def of_longer(self):
        """The sums to take of vectors of up to `LONGER` C."""
        return RowSums(self.block_of_longer)

    def weighted(self, x, factors):
        """Returns the sum over rows of factor * row.

        Args:
            x: [rows, ...], what has been computed of each row.
            factors: [rows].

        Returns:
            [...], in the dtype of x, or float64.
        """

        def part(x, factors):
            return tf.tensordot(factors, x, axes=1)

        return self._in_blocks(part, (x, factors), self.block)

    def products(self, a, b):
        """Returns the sum over rows and positions of a b^T.

        Args:
            a: [rows, *blocks, T, d], with one axis of blocks or none.
            b: [rows, *blocks, T, p].

        Returns:
            [*blocks, d, p], in the dtype of a and b, or float64.
        """
        rows, positions = b.shape[0], b.shape[-2]

        def by_row(a, b):
            return tf.reduce_sum(tf.matmul(a, b, transpose_a=True), axis=0)

        if positions == 1:
            return self._in_blocks(_fused, (a, b), self.block)
        if None not in (rows, positions) and positions >= _FEW_POSITIONS:
            numbers = b.shape[1:-2].num_elements() * a.shape[-1] * b.shape[-1]
            block, held = self.block or max(rows, 1), _MATRICES_BYTES // (a.dtype.size * numbers)
            if held < block:
                # Half or less, so that adding up more blocks does not make more roundings in all.
                block = max(min(held, block // 2), 1)
            if rows <= _MOST_BLOCKS * block:
                wide = self.block is None
                return self._in_blocks(by_row, (a, b), block, wide=wide, in_turn=True)
        return self.in_float64(_fused, (a, b), positions)

    def in_float64(self, function, tensors, positions):
        """Returns a sum over rows and positions that is taken in float64, in one go.

        Args:
            function: Function of [rows, ...] tensors that adds up their rows.
            tensors: Tuple of [rows, ...]. The parts of a row, added up by their norms, are at most
                256 C.
            positions: The number of parts of a row, None if it is not known.
        """
        block = None if positions is None else max(_FUSED_TERMS // positions, 1)
        return self._in_blocks(function, tensors, block, wide=True)

    def by_id(self, x, ids, count, rows):
        """Returns the sum of the vectors of each id.

        Args:
            x: [n, d], vectors of norms whose sum over an example is at most 256 C.
            ids: [n], int; negative ones are left out.
            count: The number of ids.
            rows: The most vectors of one id, None if that is not known.

        Returns:
            [count, d], in the dtype of x, or float64.
        """
        if rows is None or self.block is None or rows > self.block:
            x = tf.cast(x, tf.float64)
        return tf.math.unsorted_segment_sum(x, ids, count)

    def _in_blocks(self, function, tensors, block, wide=None, in_turn=False):
        """`function` of a few rows at a time, added up."""
        rows = tensors[0].shape[0]
        wide = (block is None if wide is None else wide) or rows is None
        if wide:
            tensors = [tf.cast(x, tf.float64) for x in tensors]
        count = 1 if None in (rows, block) else max(-(-rows // block), 1)
        ends = [0] if rows is None else [rows * (i + 1) // count for i in range(count)]
        parts, begin = [], 0
        for end in ends:
            some = tensors if count == 1 else [x[begin:end] for x in tensors]
            # In turn where they hold much, so that not all of it is there at once.
            with tf.control_dependencies(parts[-1:] if in_turn else []):
                parts.append(function(*map(tf.identity, some) if in_turn else some))
            begin = end
        return _added_up(parts)


IN_BLOCKS = RowSums()


def _added_up(parts):
    step = BLOCKS_ADDED_AT_ONCE
    while len(parts) > 1:
        parts = [tf.add_n(parts[i : i + step]) for i in range(0, len(parts), step)]
    return parts[0]


def _fused(a, b):
    if a.shape.rank == 4:
        return tf.einsum("nktd,nktp->kdp", a, b)
    a, b = (tf.reshape(x, tf.stack([-1, tf.shape(x)[-1]])) for x in (a, b))
    return tf.matmul(a, b, transpose_a=True)
