"""Sums over rows: what they are, and that rounding moves them by no more than is paid for."""

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from tests.each import each
from tests.gradients.looped_reference import relative_error
from tfdpnorm.gradients import Clipping
from tfdpnorm.gradients.contributions import row_sums
from tfdpnorm.gradients.contributions import sums_on_gpu as sums_on_gpu_module
from tfdpnorm.gradients.contributions.arithmetic import gram_norms, sum_of_squares
from tfdpnorm.gradients.contributions.contribution import BlockOuterSum
from tfdpnorm.gradients.contributions.row_sums import (
    LONGER,
    RowSums,
    most_additions,
    rounded_sums,
    rows_of_longer,
)
from tfdpnorm.gradients.contributions.sums_on_gpu import SumsOnGpu, sums_on_gpu
from tfdpnorm.gradients.rules.embedding import LookupSum
from tfdpnorm.privacy.slots import most_per_batch_for

SUMS = [
    *(RowSums(block) for block in (128, 4, None)),
    *(SumsOnGpu(block) for block in (128, 4, 1)),
]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


# --- what they are ---


@each("sums", SUMS, ids=str)
@each("rows", [0, 1, 7, 40])
def test_weighted(sums, rows):
    x, factors = normal(rows, 3, 2), normal(rows, seed=1)
    found = sums.weighted(tf.constant(x), tf.constant(factors))
    expected = np.einsum("n,nij->ij", factors.astype(float), x)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    is_wide = sums.block is None or isinstance(sums, SumsOnGpu)
    assert found.dtype == (tf.float64 if is_wide else tf.float32)


@each("sums", SUMS, ids=str)
@each("positions", [1, 3, 40])
@each("rows", [0, 1, 9])
def test_products(sums, positions, rows):
    a, b = normal(rows, positions, 3), normal(rows, positions, 2, seed=1)
    expected = np.einsum("ntd,ntp->dp", a.astype(float), b)
    found = sums.products(tf.constant(a), tf.constant(b))
    np.testing.assert_allclose(found, expected, atol=1e-4)


@each("sums", [RowSums(), SumsOnGpu()], ids=["CPU", "GPU"])
@each("rows", [None, 5])
def test_sizes_that_are_not_known(sums, rows):
    spec = tf.TensorSpec([rows, None, 3])
    traced = tf.function(sums.products, input_signature=[spec, spec], autograph=False)
    a, b = normal(5, 4, 3), normal(5, 4, 3, seed=1)
    found = traced(a, b)
    assert found.dtype == tf.float64
    np.testing.assert_allclose(found, np.einsum("ntd,ntp->dp", a.astype(float), b), atol=1e-5)


def test_rows_of_unknown_size_are_summed_in_float64_on_a_gpu():
    """2^24 and ones that would be lost beside it."""
    specs = tf.TensorSpec([512, None]), tf.TensorSpec([512])
    traced = tf.function(SumsOnGpu(4).weighted, input_signature=specs, autograph=False)
    assert float(traced(tf.constant([[2.0**24], *[[1.0]] * 511]), tf.ones([512]))[0]) == 2**24 + 511


def test_matrices_that_would_take_too_much_memory(monkeypatch):
    a, b = normal(9, 40, 3), normal(9, 40, 2, seed=1)
    expected = np.einsum("ntd,ntp->dp", a, b)
    monkeypatch.setattr(row_sums, "_MATRICES_BYTES", 1)
    by_row = RowSums().products(tf.constant(a), tf.constant(b))
    monkeypatch.setattr(row_sums, "_MOST_BLOCKS", 4)
    at_once = RowSums().products(tf.constant(a), tf.constant(b))
    assert (by_row.dtype, at_once.dtype) == (tf.float32, tf.float64)
    np.testing.assert_allclose(by_row, expected, atol=1e-4)
    np.testing.assert_allclose(at_once, expected, atol=1e-4)


# --- how they round ---


def additions_of(rows, block):
    """The most additions that a number goes through in `RowSums`, whatever a kernel's order."""
    seen = []

    class Count:
        def __init__(self, rows, additions):
            self.rows, self.additions = rows, additions

    sums = RowSums(block)
    x = tf.zeros([rows])

    def part(x):
        seen.append(x.shape[0])
        return tf.zeros([])

    sums._in_blocks(part, (x,), block)
    assert sum(seen) == rows and max(seen) <= block
    parts = [size - 1 for size in seen]
    while len(parts) > 1:
        groups = [parts[i : i + 8] for i in range(0, len(parts), 8)]
        parts = [max(group) + len(group) - 1 for group in groups]
    return parts[0]


def test_sums_take_at_most_the_additions_in_the_bound():
    cases = itertools.product([1, 2, 17, 128, 129, 600, 1025], (32, 128))
    for rows, block in cases:
        # Smaller blocks are taken where memory asks for it.
        for smaller in {block, block // 2, block // 3, 5, 1}:
            found = additions_of(rows, smaller)
            assert found <= most_additions(rows, block), (rows, block, smaller)
            # Fewer rows at once round no more: a physical batch may be smaller than a lot.
            for fewer in {rows // 2 + 1, rows // 3 + 1, 1}:
                assert additions_of(fewer, smaller) <= most_additions(rows, block)


def test_longer_vectors_go_through_so_much_fewer_additions():
    seen = set()
    for rows in (8, 104, 760, 2_304, 9_600):
        block, _ = rounded_sums(rows)
        finer = rows_of_longer(rows, block)
        seen.add(finer)
        if finer is not None:
            few, many = (most_additions(rows, size) + 4 for size in (finer, block))
            assert LONGER * few <= many and finer <= block
    assert {None, 16} <= seen


def test_blocks_are_added_up_in_a_tree():
    """Eight at a time: 2^24 and ones that would be lost beside it one by one."""
    found = RowSums(1).weighted(tf.constant([2.0**24, *[1.0] * 511]), tf.ones([512]))
    assert 2**24 + 496 <= float(found) <= 2**24 + 511


def most_rows(lot):
    return most_per_batch_for(100 * lot, 0.01, 1e-11)


def test_rounding_raises_the_noise_by_little():
    """What noise is raised by: little for small lots, at most 2 % for any."""
    of_lot = {lot: rounded_sums(most_rows(lot))[1] for lot in (64, 600, 4_096, 65_536)}
    assert of_lot[64] < 0.003 and of_lot[600] < 0.016
    assert of_lot[4_096] < 0.0025 and of_lot[65_536] < 0.035  # in float64
    # With all additions one after the other, in exact arithmetic.
    rows = most_rows(600)
    block, more = rounded_sums(rows)
    assert more > 2 * rows * (block - 1 + 7 * math.log(rows / block, 8)) * 2.0**-24


def test_positions_that_cancel_do_not_move_other_rows():
    """Where parts of one gradient are long and cancel, float32 would round the others' sum."""
    a, b = normal(64, 2, 8), normal(64, 2, 8, seed=1)
    a[0] = 1e6
    b[0, 1] = -b[0, 0]
    found = RowSums().products(tf.constant(a), tf.constant(b)).numpy()
    without = RowSums().products(tf.constant(a[1:]), tf.constant(b[1:])).numpy()
    assert relative_error([found], [without]) < 1e-9
    together = tf.einsum("ntd,ntp->dp", a, b).numpy()
    assert relative_error([together.astype(float)], [without]) > 1e-3


# --- on GPUs ---


def parts_on_gpu(sums, rows, monkeypatch):
    """[rows], by the part in which `SumsOnGpu` adds up each row in float32, and how many parts."""
    blocks = []
    real = SumsOnGpu._over_blocks

    def spied(self, of_blocks, tensors, *sizes):
        def noted(*tensors):
            blocks.append(tuple(tensors[0].shape[:2]))
            return of_blocks(*tensors)

        return real(self, noted, tensors, *sizes)

    with monkeypatch.context() as patched:
        patched.setattr(SumsOnGpu, "_over_blocks", spied)
        sums.weighted(tf.zeros([rows, 2]), tf.zeros([rows]))
        sums.products(tf.zeros([rows, 1, 2]), tf.zeros([rows, 1, 3]))
        sums.products(tf.zeros([rows, 4, 2]), tf.zeros([rows, 4, 3]))
    return blocks


@each("rows", [1, 8, 127, 128, 600, 1_000])
@each("block", [128, 32, 4, 1])
def test_sums_on_a_gpu_take_at_most_the_additions_in_the_bound(rows, block):
    """In float32. Blocks that are smaller than they may be make fewer."""
    with pytest.MonkeyPatch.context() as patched:
        blocks = parts_on_gpu(SumsOnGpu(block), rows, patched)
    assert len(blocks) == 3
    for count, size in blocks:
        assert count * size == rows and size <= block
        assert size - 1 <= most_additions(rows, block)


@each("lot", [8, 64, 600, 1_024, 2_048, 4_096, 16_384, 65_536])
def test_rounding_raises_the_noise_by_little_on_a_gpu(lot):
    """As on a processor, unless that adds up in float64; then at most 2 %, or what that costs."""
    rows = most_rows(lot)
    block, on_cpu = rounded_sums(rows)
    sums, more = sums_on_gpu(rows)
    assert more >= 2 * rows * (min(sums.block, rows) - 1 + 4) * 2.0**-24, "in exact arithmetic"
    if block is not None:
        assert (sums.block, more) == (block, on_cpu)
    else:
        assert on_cpu <= more <= max(0.02, on_cpu)
    # Longer vectors make up for it by fewer additions; in blocks of one they make none.
    paid = more / (2 * rows * 2.0**-24)
    assert sums.of_longer().block == 1 or LONGER * (sums.of_longer().block + 3) <= paid


def test_the_sums_of_blocks_are_added_up_in_float64():
    """2^24 and ones that would be lost beside it, also in the last of several parts."""
    x = tf.constant([2.0**24, *[1.0] * 511])
    assert float(SumsOnGpu(1).weighted(x, tf.ones([512]))) == 2**24 + 511
    ones = tf.ones([512, 1, 1])
    for held in (2**29, 1):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sums_on_gpu_module, "_HELD_BYTES", held)
            found = SumsOnGpu(1).products(x[:, tf.newaxis, tf.newaxis], ones)
            assert float(found[0, 0]) == 2**24 + 511


# --- norms that no rounding makes too small ---


@each("shape", [(1_000_003,), (100_000, 10), (7, 300, 500), (4096,), (3, 3, 5)])
@each("traced", [False, True])
def test_norms_are_never_too_small(shape, traced):
    # Beside 1, squares of 2^-26 are lost one by one; and what is left of them is all to be rounded.
    x = np.full([2, *shape], 2.0**-13, np.float32)
    x.reshape([2, -1])[:, 0] = 1
    x[1] = normal(*shape)
    compute = (
        tf.function(sum_of_squares, jit_compile=True, autograph=False) if traced else sum_of_squares
    )
    found = compute(tf.constant(x)).numpy().astype(float)
    exact = np.square(x.astype(float)).reshape([2, -1]).sum(1)
    assert (found >= exact).all()
    if shape != (1_000_003,):  # a prime number of squares are added up in one go
        assert (found <= exact * (1 + 2e-5)).all()


@each("kind", ["ids", "blocks"])
def test_norms_of_many_parts_are_never_too_small(kind):
    """One of 1, and others whose squares are just below half of the last place of 1."""
    parts = 65_536
    b = np.full((1, parts, 1), np.sqrt(0.99 * 2.0**-24), np.float32)
    b[0, 0] = 1
    if kind == "ids":
        row = LookupSum(tf.range(parts)[tf.newaxis], tf.constant(b), tf.TensorShape((parts, 1)))
    else:
        b = tf.constant(b)[:, :, tf.newaxis]
        row = BlockOuterSum(tf.ones_like(b), b, (parts,), (0,), (parts,))
    exact = np.square(b, dtype=float).sum()
    assert exact <= float(row.squared_norms()[0]) <= exact * (1 + 1e-5)
    (factors,), _ = Clipping(0.5).factors([row.squared_norms()])
    clipped = row.weighted_sum(factors, tf.constant([True]))
    assert np.square(clipped, dtype=float).sum() <= 0.25


def test_norms_of_parts_that_cancel_have_a_floor():
    a = np.ones([1, 2, 4], np.float32)
    b = np.stack([np.ones([1, 4]), -np.ones([1, 4])], 1).astype(np.float32)
    grams = [tf.constant(x @ np.swapaxes(x, 1, 2)) for x in (a, b)]
    parts = 2 * 2 * 2
    assert float(gram_norms(*grams, (4, 4))[0]) >= (parts / 256) ** 2
