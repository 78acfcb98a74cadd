"""Sums over rows for GPUs, many of which compute float64 at a 32nd or 64th of the rate of float32.

All products are in float32 here: a row's gradient is computed whole, from nothing but that row, and
blocks of rows are added up. Only the sums of blocks are added up in float64, some additions for
each number of the result. So a row goes through fewer roundings than `RowSums` makes with blocks as
large, and the bound on these holds. docs/exact_noise.md derives it.
"""

import dataclasses

import tensorflow as tf

from tfdpnorm.gradients.contributions.row_sums import (
    LONGER,
    MOST_ROUNDING,
    RowSums,
    most_additions,
    rounded_sums,
    rounding_of,
)

_BLOCKS_OF_MANY_ROWS = (32, 16, 8, 4)  # where `RowSums` adds up in float64
_HELD_BYTES = 512 * 2**20  # of what is computed of rows before they are added up


def sums_on_gpu(rows):
    """Returns the pair of the `SumsOnGpu` to take and what their rounding can do.

    See `sums_on_cpu`, which gives the same figure, unless it adds up in float64.
    """
    block, more = rounded_sums(rows)
    if block is None:
        small = (b for b in _BLOCKS_OF_MANY_ROWS if rounding_of(rows, b - 1) <= MOST_ROUNDING)
        block = next(small, 1)
        paid, more = block - 1, rounding_of(rows, block - 1)
    else:
        paid = most_additions(rows, block)
    finer = block
    while finer > 1 and LONGER * (finer - 1 + 4) > paid + 4:
        finer //= 2
    return SumsOnGpu(block, finer), more


@dataclasses.dataclass(frozen=True)
class SumsOnGpu(RowSums):
    """How rows are added up on GPUs: `block` of them in float32 in one go, and these in float64.

    With a block of 1, vectors of rows are added up in float64.
    """

    def weighted(self, x, factors):
        """As `RowSums`; the result is float64."""
        if not x.shape.is_fully_defined():
            return _IN_FLOAT64.weighted(x, factors)

        def of_blocks(x, factors):
            flat = tf.reshape(x, [-1, x.shape[1], x.shape[2:].num_elements()])
            return tf.matmul(factors[:, tf.newaxis], flat)

        numbers = x.shape[1:].num_elements()
        total = self._over_blocks(of_blocks, (x, factors), self.block, numbers)
        return tf.reshape(total, x.shape[1:])

    def products(self, a, b):
        """As `RowSums`; the result is float64."""
        if not (a.shape.is_fully_defined() and b.shape.is_fully_defined()):
            return _IN_FLOAT64.products(a, b)
        numbers = b.shape[1:-2].num_elements() * a.shape[-1] * b.shape[-1]

        def of_row(a, b):
            return tf.matmul(a, b, transpose_a=True)

        if b.shape[-2] != 1:
            return self._over_rows(of_row, (a, b), numbers)

        def of_blocks(a, b):
            return tf.einsum("nr...d,nr...p->n...dp", tf.squeeze(a, -2), tf.squeeze(b, -2))

        return self._over_blocks(of_blocks, (a, b), self.block, numbers)

    def of_gradients(self, at_once, by_row, tensors, positions, numbers):
        """As `RowSums`: each row's gradient by itself."""
        if not all(x.shape.is_fully_defined() for x in tensors):
            return _IN_FLOAT64.of_gradients(at_once, by_row, tensors, positions, numbers)
        return self._over_rows(by_row, tensors, numbers)

    def of_longer(self):
        return SumsOnGpu(self.block_of_longer)

    def _over_rows(self, by_row, tensors, numbers):
        """The sum of `by_row(*tensors)`, [rows, ...], of so many numbers each."""
        # Smaller blocks make fewer roundings.
        block = min(self.block, max(_HELD_BYTES // (tensors[0].dtype.size * numbers), 1))

        def of_blocks(*tensors):
            count, size = tensors[0].shape[:2]
            found = by_row(*(tf.reshape(x, [count * size, *x.shape[2:]]) for x in tensors))
            return tf.reduce_sum(tf.reshape(found, [count, size, *found.shape[1:]]), axis=1)

        return self._over_blocks(of_blocks, tensors, block, block * numbers)

    def _over_blocks(self, of_blocks, tensors, block, numbers):
        """The sum over n of `of_blocks` of tensors [n, rows of a block, ...], in float64.

        It computes so many `numbers` for each block, of at most `block` rows of `tensors`, [rows,
        ...].
        """
        rows, dtype = tensors[0].shape[0], tensors[0].dtype
        size = max((k for k in range(1, min(block, rows) + 1) if rows % k == 0), default=1)
        tensors = [tf.reshape(x, [rows // size, size, *x.shape[1:]]) for x in tensors]
        at_once = max(_HELD_BYTES // (dtype.size * numbers), 1)
        total = None
        for begin in range(0, max(rows // size, 1), at_once):
            some = [x[begin : begin + at_once] for x in tensors]
            # In turn, so that not all of it is there at once.
            with tf.control_dependencies([] if total is None else [total]):
                part = of_blocks(*map(tf.identity, some))
            part = tf.reduce_sum(tf.cast(part, tf.float64), axis=0)
            total = part if total is None else total + part
        return total


# Of sizes that are not known while tracing.
_IN_FLOAT64 = RowSums(None)
