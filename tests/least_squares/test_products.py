"""What one example, or one person, adds to the sum that is released, and the way back from it."""

import math

import numpy as np
import pytest

from tests.each import each
from tfdpnorm.least_squares.products import Coding, Products, clipped, row_weights

D, CLASSES = 7, 3


def products(coding=None, clip=1.0, share=1 / 3, features=D, intercept=0.1):
    """With 0.1, as short as a clip of 1e-3 and as long as one of 1 may have it."""
    return Products(features + 1, coding or Coding.of_classes(CLASSES), clip, share, intercept)


def one(features, label, **settings):
    """The vector of one example."""
    vector, _ = products(**settings).total(np.array([features]), np.array([label]), np.ones(1))
    return vector


rng = np.random.default_rng(0)
ROWS = {
    "short": 0.1 * rng.normal(size=D),
    "long": 50 * rng.normal(size=D),
    "one large": 1e6 * np.eye(D)[2],
    "all alike": np.ones(D),
    "huge": np.full(D, 1e200),
    "tiny": np.full(D, 1e-200),
    "infinite": np.array([np.inf, *np.zeros(D - 1)]),
    "not a number": np.array([1.0, np.nan, *np.zeros(D - 2)]),
}
TARGETS = {
    "classes": (Coding.of_classes(CLASSES), 1),
    "two classes": (Coding.of_classes(2), 0),
    "no class": (Coding.of_classes(CLASSES), 7),
    "below": (Coding.of_classes(CLASSES), -1),
    "long target": (Coding(None, 2, 0.5), np.array([30.0, -40.0])),
    "short target": (Coding(None, 2, 5.0), np.array([0.3, 0.4])),
    "infinite target": (Coding(None, 2, 5.0), np.array([np.inf, 0.4])),
    "scalar target": (Coding(None, 1, 2.0), 17.0),
}


@each("row", ROWS)
def test_one_row_of_any_size_moves_the_sum_by_at_most_one(row):
    for coding, label in TARGETS.values():
        for share in (0.01, 1 / 3, 0.99):
            for clip in (1e-3, 1.0, 40.0):
                for intercept in (1e-4, 0.1, 1e3):
                    settings = dict(coding=coding, clip=clip, share=share, intercept=intercept)
                    moved = one(ROWS[row], label, **settings)
                    assert np.isfinite(moved).all()
                    assert np.linalg.norm(moved) <= 1 + 1e-13


def test_the_bound_is_reached():
    """By a long row with a class, and with a long target; so no smaller noise would do."""
    for coding, label in (TARGETS["classes"], TARGETS["long target"], TARGETS["scalar target"]):
        for share in (0.01, 1 / 3, 0.99):
            moved = one(ROWS["long"], label, coding=coding, share=share)
            assert np.linalg.norm(moved) == pytest.approx(1, abs=1e-12)


def test_adding_a_row_moves_the_sum_by_what_that_row_adds_alone():
    x, y = rng.normal(size=(9000, D)), rng.integers(CLASSES, size=9000)
    made = products()
    moved = np.subtract(
        made.total(x, y, np.ones(9000))[0], made.total(x[:-1], y[:-1], np.ones(8999))[0]
    )
    np.testing.assert_allclose(moved, one(x[-1], y[-1]), atol=made.rounding(9000))
    assert np.linalg.norm(moved) <= 1 + made.rounding(9000)


@each("value", ["not a number", "infinite"])
def test_rows_that_are_not_finite_add_nothing(value):
    x = np.array([ROWS["short"], ROWS[value], ROWS["long"]])
    y = np.array([0, 1, 2])
    total, complete = products().total(x, y, np.ones(3))
    np.testing.assert_allclose(total, one(x[0], 0) + one(x[2], 2), atol=1e-15)
    assert not complete and products().total(x[:1], y[:1], np.ones(1))[1]


def test_labels_out_of_range_add_nothing():
    for label in (-1, CLASSES, 10**9):
        total, complete = products().total(np.ones((1, D)), np.array([label]), np.ones(1))
        assert not total.any() and not complete


def test_the_matrices_are_those_of_the_clipped_rows():
    x, y = rng.normal(size=(50, D)), rng.integers(CLASSES, size=50)
    made = products(clip=2.0)
    gram, cross = made.matrices(made.total(x, y, np.ones(50))[0])
    x = np.column_stack([x, np.full(50, 0.1)])
    u = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 2.0)
    np.testing.assert_allclose(gram, u.T @ u, atol=1e-12)
    np.testing.assert_allclose(cross, u.T @ (np.eye(CLASSES)[y] - 1 / CLASSES), atol=1e-12)
    assert np.array_equal(gram, gram.T)


def test_targets_are_clipped_to_their_bound():
    coding = Coding(None, 2, 5.0)
    targets, finite = coding.targets(np.array([[30.0, -40.0], [0.3, 0.4], [np.nan, 0]]))
    np.testing.assert_allclose(targets, [[3.0, -4.0], [0.3, 0.4], [0, 0]], atol=1e-12)
    assert finite.tolist() == [True, True, False]


def test_noise_in_the_gram_matrix_has_the_deviation_that_is_said():
    made = products(share=0.2, features=60)
    vector = np.random.default_rng(1).normal(0, 3.0, 61 * 62 // 2 + 61 * CLASSES)
    gram, _ = made.matrices(vector)
    off = gram[np.triu_indices(61, 1)]
    assert off.std() == pytest.approx(made.gram_noise(3.0), rel=0.05)
    assert np.diag(gram).std() == pytest.approx(math.sqrt(2) * made.gram_noise(3.0), rel=0.3)


def test_rounding_bounds_what_a_row_can_do_to_the_computed_sum():
    """A row whose numbers are far below the sums moves them by rounding alone."""
    count = 3 * 4096 + 5
    x = np.random.default_rng(2).normal(size=(count, D))
    y = np.random.default_rng(3).integers(CLASSES, size=count)
    made, exact = products(), 0
    computed, _ = made.total(x, y, np.ones(count))
    u, _ = clipped(np.column_stack([x, np.full(count, 0.1)]), 1.0)
    targets, _ = Coding.of_classes(CLASSES).targets(y)
    gram, cross = (
        (u.astype(np.longdouble)[:, :, None] * part.astype(np.longdouble)[:, None, :]).sum(axis=0)
        for part in (u, targets)
    )
    exact = made._vector(gram, cross)
    off = np.linalg.norm((computed - exact).astype(float))
    assert 0 < off < made.rounding(count) / 2 < 1e-7
    assert made.rounding(10**9) < 1e-3


class TestPersons:
    def test_persons_move_the_sum_by_at_most_one(self):
        x, y = 9 * rng.normal(size=(40, D)), rng.integers(CLASSES, size=40)
        for person in (np.zeros(40, int), np.arange(40) // 8, np.arange(40)):
            for most in (1, 5, 100):
                count, weights = row_weights(40, person, most)
                without = np.where(person == 0, 0, weights)
                sums = [products().total(x, y, w)[0] for w in (weights, without)]
                assert np.linalg.norm(np.subtract(*sums)) <= 1 + 1e-12
                assert count == len(set(person))

    def test_rows_of_one_person_that_are_alike_reach_the_bound(self):
        x, y = np.tile(ROWS["long"], (40, 1)), np.ones(40, int)
        _, weights = row_weights(40, np.zeros(40, int), 10)
        total, _ = products().total(x, y, weights)
        assert np.linalg.norm(total) == pytest.approx(1, abs=1e-12)

    def test_the_first_rows_of_a_person_are_read(self):
        person = np.array(["b", "a", "b", "b", "a", "c"])
        count, weights = row_weights(6, person, 2)
        assert count == 3
        np.testing.assert_array_equal(weights, [0.5, 0.5, 0.5, 0, 0.5, 1])

    def test_without_persons_each_row_counts_once(self):
        count, weights = row_weights(5)
        assert count == 5 and weights.tolist() == [1] * 5
