"""Sums over rows, computed so that their rounding has a bound, which the noise is increased by.

Clipping bounds what one row adds to the exact sum. In the computed one a row also changes the
rounding of others (Casacuberta, Shoemate, Vadhan and Wagaman 2022). What it changes is bounded if
each row's vector has a norm of at most C *before* it is rounded into a sum, and goes through few
roundings. So vectors of one row are computed whole, from nothing but that row, and then added up in
blocks; where that would take too much time or memory, positions and rows are added up at once, in
float64. docs/exact_noise.md derives the bound, `rounded_sums` gives its numbers.
"""

import dataclasses

import tensorflow as tf

# --- the bound ---

ROWS_IN_A_BLOCK = (128, 64, 32)
BLOCKS_ADDED_AT_ONCE = 8

LONGER = 4  # how much longer than C a row's vector may be where `rows_of_longer` are added up

_UNIT = 2.0**-24  # unit roundoff of float32
MOST_ROUNDING = 0.02  # of C; above it, smaller blocks are taken


def rounded_sums(rows):
    """How sums over the rows of a batch are computed, and what their rounding can do.

    No batch has more than `rows` examples, up to a probability that delta includes, and no physical
    batch more rows. Returns the number of rows that are added up in float32 in one go, None for
    none; and the most, relative to C, that rounding adds to the distance of the computed sums of
    two batches that differ in one example.
    """
    for block in ROWS_IN_A_BLOCK:
        more = rounding_of(rows, most_additions(rows, block))
        if more <= MOST_ROUNDING:
            return block, more
    return None, rounding_of(rows, 0)


def rounding_of(rows, additions):
    """How much rounding adds to the distance of two sums of `rows` vectors of norm 1.

    Each vector goes through `additions` roundings in float32, two more where float64 is rounded to
    it, one where the sum is multiplied by its share of the budget, and through what float64 itself
    loses, which is less than one more.
    """
    roundings = (additions + 4) * _UNIT
    return 2 * rows * roundings / (1 - roundings)


def sums_on_cpu(rows):
    """Returns the `RowSums` to take and what their rounding can do; see `rounded_sums`."""
    block, more = rounded_sums(rows)
    return RowSums(block, rows_of_longer(rows, block)), more


def rows_of_longer(rows, block):
    """How many longer vectors are added up in float32 in one go, at most `block`; None for none.

    A function of the sum may make vectors shorter, those of rows with norms of up to `LONGER` C.
    Rounding of their sum is larger by as much; fewer additions keep it within what is charged.
    """
    finer = block or 0
    while finer:
        if LONGER * (most_additions(rows, finer) + 4) <= most_additions(rows, block) + 4:
            return finer
        finer //= 2
    return None


def most_additions(rows, block):
    """The most additions in float32 that one row's number goes through in `RowSums`.

    Zeros are added without rounding: which of the rows are padding makes no difference.
    """
    blocks, levels = -(-rows // block), 0
    while blocks > 1:
        blocks, levels = -(-blocks // BLOCKS_ADDED_AT_ONCE), levels + 1
    return min(rows - 1, block - 1 + (BLOCKS_ADDED_AT_ONCE - 1) * levels)


# --- the sums ---

_FEW_POSITIONS = 16  # for fewer, float64 takes less time than a matrix for each row
_MATRICES_BYTES = 32 * 2**20  # how much of the rows' matrices is held at once
_MOST_BLOCKS = 32  # each is a part of the graph of its own, which takes time to trace
_FUSED_TERMS = 2**20  # added up in float64 in one go


@dataclasses.dataclass(frozen=True)
class RowSums:
    """How rows are added up: `block` of them in float32 in one go, or all in float64 if it is None.

    `block_of_longer` is the same for vectors of rows that may be `LONGER` C long.
    """

    block: int | None = ROWS_IN_A_BLOCK[0]
    block_of_longer: int | None = None

    def of_longer(self):
        """The sums to take of vectors of up to `LONGER` C."""
        return RowSums(self.block_of_longer)

    def weighted(self, x, factors):
        """Returns the sum over rows of factor * row of x, [rows, ...]; it may be float64."""

        def part(x, factors):
            return tf.tensordot(factors, x, axes=1)

        return self._in_blocks(part, (x, factors), self.block)

    def products(self, a, b):
        """Returns the sum over rows and positions of a b^T, [*blocks, d, p]; it may be float64.

        a is [rows, *blocks, T, d] and b [rows, *blocks, T, p], with one axis of blocks or none.
        """
        rows, positions = b.shape[0], b.shape[-2]

        def by_row(a, b):
            return tf.reduce_sum(tf.matmul(a, b, transpose_a=True), axis=0)

        if positions == 1:
            return self._in_blocks(_fused, (a, b), self.block)
        if self.block and None not in (rows, positions) and positions >= _FEW_POSITIONS:
            numbers = b.shape[1:-2].num_elements() * a.shape[-1] * b.shape[-1]
            block, held = self.block, _MATRICES_BYTES // (a.dtype.size * numbers)
            if held < block:
                # Half or less, so that adding up more blocks does not make more roundings in all.
                block = max(min(held, block // 2), 1)
            if rows <= _MOST_BLOCKS * block:
                return self._in_blocks(by_row, (a, b), block, in_turn=True)
        return self.in_float64(_fused, (a, b), positions)

    def of_gradients(self, at_once, by_row, tensors, positions, numbers):
        """Returns the sum of the rows' gradients, which are sums over `positions` themselves.

        `at_once` adds up the rows and positions of `tensors`, a tuple of [rows, ...]; `by_row`
        gives the gradient of each row, [rows, ...], which has so many `numbers`. `positions` as in
        `in_float64`.
        """
        del by_row, numbers
        return self.in_float64(at_once, tensors, positions)

    def in_float64(self, function, tensors, positions):
        """Returns a sum over rows and positions that is taken in float64, in one go.

        `function` adds up the rows of `tensors`, a tuple of [rows, ...]. A row has so many
        `positions`, None if that is unknown; the norms of its parts there add up to at most 256 C.
        """
        block = None if positions is None else max(_FUSED_TERMS // positions, 1)
        return self._in_blocks(function, tensors, block, wide=True)

    def by_id(self, x, ids, count, rows):
        """Returns the sums of the vectors x, [n, d], by id, [count, d]; they may be float64.

        The norms of the vectors of one example add up to at most 256 C. Negative `ids`, [n], are
        left out. `rows` is the most vectors of one id, None if that is not known.
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
        step = BLOCKS_ADDED_AT_ONCE
        while len(parts) > 1:
            parts = [tf.add_n(parts[i : i + step]) for i in range(0, len(parts), step)]
        return parts[0]


IN_BLOCKS = RowSums()
IN_FLOAT64 = RowSums(None)


def _fused(a, b):
    if a.shape.rank == 4:
        return tf.einsum("nktd,nktp->kdp", a, b)
    a, b = (tf.reshape(x, tf.stack([-1, tf.shape(x)[-1]])) for x in (a, b))
    return tf.matmul(a, b, transpose_a=True)
