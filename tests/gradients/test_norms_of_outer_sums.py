"""Norms of sums of outer products, in the three ways that they are taken: never too small."""

import numpy as np
import tensorflow as tf

from tests.each import each
from tfdpnorm.gradients.contributions.arithmetic import gram_norms
from tfdpnorm.gradients.contributions.contribution import BlockOuterSum, OuterSum

ROWS = 300
# By the product of norms, by Gram matrices over the positions, and by the matrices themselves.
SIZES = each("positions, d, p", [(1, 3, 4), (2, 8, 9), (40, 2, 3)])


def of(a, b):
    """The squared norms that `OuterSum` gives, and the true ones in double precision."""
    a, b = (x.astype(np.float32) for x in (a, b))
    gradients = np.einsum("ntd,ntp->ndp", a.astype(np.float64), b.astype(np.float64))
    squeezed = [x[:, 0] if x.shape[1] == 1 else x for x in (a, b)]
    found = OuterSum(*squeezed, gradients.shape[1:]).squared_norms().numpy()
    return found, np.square(gradients).sum(axis=(1, 2))


@SIZES
def test_they_are_those_of_the_matrices(positions, d, p):
    rng = np.random.default_rng(0)
    found, expected = of(
        rng.normal(size=(ROWS, positions, d)), rng.normal(size=(ROWS, positions, p))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@each("size, rest", [(8, 1e-4), (8, 1e-6), (64, 1e-6), (64, 1e-3), (256, 1e-3), (512, 3e-3)])
def test_positions_that_cancel_leave_no_less_than_there_is(size, rest):
    """What is left is a small difference of large numbers, which rounding must not make smaller."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(ROWS, 1, size)), rng.normal(size=(ROWS, 1, size))
    a = np.concatenate([a, a + rest * rng.normal(size=a.shape)], axis=1)
    b = np.concatenate([b, -b + rest * rng.normal(size=b.shape)], axis=1)
    found, expected = of(a, b)
    assert np.all(np.sqrt(found) >= np.sqrt(expected) * (1 - 1e-5))


@each("roundings", [(0, 0), (1000, 0), (0, 1000), (300, 700)])
def test_the_allowance_is_the_bound_that_is_written_down(roundings):
    """u sum_ts (n_a ||a_t|| ||a_s|| |B_ts| + n_b ||b_t|| ||b_s|| |A_ts|), and little besides."""
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(ROWS, 3, 8)), rng.normal(size=(ROWS, 3, 9))
    grams = [np.einsum("ntd,nsd->nts", x, x) for x in (a, b)]
    lengths = [np.linalg.norm(x, axis=2) for x in (a, b)]
    products = [x[:, :, None] * x[:, None] for x in lengths]
    expected = sum(
        n * product * np.abs(gram)
        for n, product, gram in zip(roundings, products, grams[::-1], strict=True)
    ).sum(axis=(1, 2))
    given = [tf.constant(gram, tf.float32) for gram in grams]
    found = gram_norms(*given, roundings) - np.maximum((grams[0] * grams[1]).sum(axis=(1, 2)), 0)
    besides = 20 * np.square((lengths[0] * lengths[1]).sum(axis=1))
    assert np.all(found >= 2.0**-24 * (expected - besides / 2))
    assert np.all(found <= 2.0**-24 * (1.001 * expected + besides))


@SIZES
def test_a_factor_too_small_to_be_squared_is_not_lost(positions, d, p):
    found, expected = of(np.full((2, positions, d), 1e-24), np.full((2, positions, p), 1e18))
    assert np.all(expected > 1e-13) and np.all(found >= expected)


def test_squares_that_are_lost_do_not_shrink_a_block():
    """TensorFlow takes 1e-38 for 0: inputs as small as that, beside gradients as large as 1e19."""
    a, b = np.full((1, 2, 1, 512), 0.9e-19, np.float32), np.full((1, 2, 1, 1), 1e19, np.float32)
    found = BlockOuterSum(a, b, [2, 512, 1], [0, 1, 2], (2, 512, 1)).squared_norms().numpy()
    assert found[0] >= 2 * 512 * (0.9e-19 * 1e19) ** 2
