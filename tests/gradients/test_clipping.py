"""Clip factors and the sum of clipped rows."""

import itertools

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.each import each
from tfdpnorm.gradients import Clipping, clip_factors, clipped_sum
from tfdpnorm.gradients.clipping import accumulation_dtype


def rows_strategy(bound=2.0**59):
    """Gradients of up to six rows by two variables, of hostile sizes, zero rows among them."""
    shapes = st.tuples(st.integers(0, 6), st.integers(1, 5))
    numbers = st.floats(-bound, bound, width=32, allow_subnormal=False)
    return shapes.flatmap(
        lambda shape: st.tuples(
            arrays.arrays("float32", shape, elements=numbers),
            arrays.arrays("float32", (shape[0], 2, 2), elements=numbers),
        )
    )


def vectors(gradients):
    """[rows, parameters], float64."""
    rows = [np.reshape(g, (len(g), int(np.prod(g.shape[1:])))) for g in gradients]
    return np.concatenate(rows, 1).astype("float64")


def clipped_reference(gradients, mask, clip):
    """Sum over rows in plain Python floats."""
    total = np.zeros(vectors(gradients).shape[1])
    for row, weight in zip(vectors(gradients), mask, strict=True):
        with np.errstate(over="ignore"):
            norm = np.sqrt(np.sum(row**2))
        if weight and np.isfinite(norm):
            total += row * (clip / norm if norm > clip else 1.0)
    return total


def flat(gradients):
    return np.concatenate([np.ravel(g) for g in gradients]).astype("float64")


@each("dtype, clip", itertools.product(("float32", "float64"), (1e-3, 1.0, 250.0)))
def test_factors_are_right_at_the_edges(dtype, clip):
    norms = np.array([0, 0.5, 1, 1.0001, 4, 1e10, np.inf, np.nan]) * clip
    factors = clip_factors(tf.constant(norms**2, dtype), clip)
    assert factors.dtype == dtype
    expected = [1, 1, 1, 1 / 1.0001, 0.25, 1e-10, 0, 0]
    np.testing.assert_allclose(factors, expected, rtol=1e-6)


def test_an_infinite_norm_clips_nothing():
    factors = clip_factors(tf.constant([0.0, 1.0, 1e30, np.inf, np.nan]), np.inf)
    np.testing.assert_array_equal(factors, [1, 1, 1, 0, 0])


def test_factors_of_no_row_and_in_a_tf_function():
    assert clip_factors(tf.zeros([0]), 1.0).shape == (0,)
    traced = tf.function(clip_factors, autograph=False)(tf.constant([4.0]), tf.constant(1.0))
    np.testing.assert_allclose(traced, [0.5])


@settings(max_examples=20, deadline=None)
@given(gradients=rows_strategy(), clip=st.sampled_from([1e-4, 1.0, 3.7, 1e6]))
def test_a_row_contributes_at_most_the_clipping_norm(gradients, clip):
    count = len(gradients[0])
    before = vectors(gradients)
    for i in range(count):
        mask = np.eye(count, dtype="float32")[i]
        summed, nonfinite = clipped_sum([tf.constant(g) for g in gradients], mask, clip)
        row, norm = flat(summed), np.linalg.norm(flat(summed))
        assert norm <= clip * (1 + 1e-6)
        assert int(nonfinite) == 0
        # Shortened, and turned nowhere.
        original = before[i] / max(1.0, np.linalg.norm(before[i]) / clip)
        np.testing.assert_allclose(row, original, rtol=1e-5, atol=1e-6 * clip)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_adding_a_row_moves_the_sum_by_the_clipping_norm_at_most(data):
    gradients = data.draw(rows_strategy())
    count = len(gradients[0])
    mask = data.draw(arrays.arrays("float32", count, elements=st.sampled_from([0.0, 1.0])))
    clip = data.draw(st.sampled_from([1e-4, 1.0, 1e6]))
    poison = data.draw(st.sampled_from([None, np.nan, np.inf, -np.inf]))
    if count and poison is not None:
        gradients[data.draw(st.integers(0, 1))][0, 0] = poison
    summed, nonfinite = clipped_sum([tf.constant(g) for g in gradients], mask, clip)
    np.testing.assert_allclose(
        flat(summed), clipped_reference(gradients, mask, clip), rtol=1e-5, atol=1e-5 * clip
    )
    assert int(nonfinite) == int(count > 0 and poison is not None and mask[0] > 0)
    for i in range(count):
        less, _ = clipped_sum(
            [tf.constant(g) for g in gradients], mask * (np.arange(count) != i), clip
        )
        moved = np.linalg.norm(flat(summed) - flat(less))
        assert moved <= clip * (1 + 1e-5)


@each("rows", [0, 1, 3])
def test_shapes_and_scalars(rows):
    shapes = [(), (2,), (2, 3), (0,)]
    gradients = [tf.ones([rows, *shape]) for shape in shapes]
    summed, nonfinite = clipped_sum(gradients, tf.ones([rows]), np.inf)
    assert [g.shape.as_list() for g in summed] == [list(shape) for shape in shapes]
    for g in summed:
        np.testing.assert_array_equal(g, np.full(g.shape, float(rows)))
    assert nonfinite.dtype == tf.int32 and nonfinite.shape == () and int(nonfinite) == 0


def test_the_norm_is_that_of_all_variables_together():
    summed, _ = clipped_sum([tf.constant([[3.0]]), tf.constant([4.0])], [1.0], 1.0)
    np.testing.assert_allclose(flat(summed), [0.6, 0.8], rtol=1e-5)


@each("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_rows_that_are_not_finite_count_as_zero(bad):
    # 3e38 is finite, but its square is not in float32: it is dropped all the same.
    gradients = [
        tf.constant([[1.0, 0.0], [bad, 1.0], [0.0, 2.0], [5.0, 5.0]]),
        tf.constant([0.0, 1.0, 0.0, bad]),
    ]
    summed, nonfinite = clipped_sum(gradients, [1.0, 1.0, 1.0, 0.0], 2.0)
    np.testing.assert_allclose(flat(summed), [1.0, 2.0, 0.0], rtol=1e-5)
    assert int(nonfinite) == 1  # The padding is not counted.


@each("variables", [1, 2, 60])
def test_rounding_keeps_rows_within_the_clipping_norm(variables):
    """Exactly: the norm of factor * row in float64, whatever the row, is at most C."""
    rng = np.random.default_rng(variables)
    rows = 2000
    sizes = 10.0 ** rng.uniform(-3, 3, [variables, rows, 1])
    gradients = [(s * rng.normal(size=[rows, 5])).astype(np.float32) for s in sizes]
    clipping = Clipping(1.0)
    norms = [tf.constant(np.square(g.astype(float)).sum(1), tf.float32) for g in gradients]
    (factor, *_), _ = clipping.factors(norms)
    clipped = [(factor.numpy()[:, None] * g).astype(float) for g in gradients]
    found = np.sqrt(sum(np.square(g).sum(1) for g in clipped))
    assert found.max() <= 1 and found.max() > 1 - 3e-5


def test_float64_stays_float64():
    rows = np.random.default_rng(0).normal(size=(3, 4))
    summed, _ = clipped_sum([tf.constant(rows), tf.constant(rows, tf.float32)], np.ones(3), 1.0)
    assert [g.dtype for g in summed] == [tf.float64, tf.float32]
    expected = clipped_reference([rows, rows], np.ones(3), 1.0)
    np.testing.assert_allclose(summed[0], expected[:4], rtol=1e-5)


def test_the_norm_of_float64_has_all_of_its_digits():
    rows = np.random.default_rng(0).normal(size=(3, 4))
    (summed,), _ = clipped_sum([tf.constant(rows)], np.ones(3), 1.0)
    expected = clipped_reference([rows], np.ones(3), 1.0)
    np.testing.assert_allclose(summed, expected, rtol=1e-13)


def test_accumulation_dtype():
    assert accumulation_dtype(tf.zeros([1], "float16")) == "float32"
    assert accumulation_dtype(tf.zeros([1], "float64")) == "float64"
