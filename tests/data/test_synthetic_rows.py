"""Synthetic public rows: their ranges and seeds, and what is rejected."""

import numpy as np
import pytest

from tests.each import each
from tfdpnorm.choices import SYNTHETIC_KINDS
from tfdpnorm.data import SyntheticRows, synthetic_rows
from tfdpnorm.data import synthetic as registry

OF_TOKENS = ("tokens", "zipf")
OF_IMAGES = ("blurred", "strokes", "ink", "fractal", "shapes", "cosine")
OF_ANY_SHAPE = ("uniform", "gaussian", "sparse", "hadamard")
OF_NUMBERS = OF_IMAGES + OF_ANY_SHAPE


@each("kind", OF_NUMBERS)
@each("shape", [(12, 9, 1), (8, 8, 3)], ids=str)
def test_rows_are_in_their_range_and_the_seeds_own(kind, shape):
    assert {*OF_NUMBERS, *OF_TOKENS} == set(SYNTHETIC_KINDS) == set(registry._KINDS)
    made = synthetic_rows(shape, 40, kind=kind, value_range=(-3, 5), seed=1)
    assert made.shape == (40, *shape) and made.dtype == np.float32
    np.testing.assert_array_equal(
        made, synthetic_rows(shape, 40, kind=kind, value_range=(-3, 5), seed=1)
    )
    other = synthetic_rows(shape, 40, kind=kind, value_range=(-3, 5), seed=2)
    assert np.any(made != other)
    unit = synthetic_rows(shape, 40, kind=kind, value_range=(0, 1), seed=1)
    np.testing.assert_allclose(made, 8 * unit - 3, atol=1e-5)
    if kind != "gaussian":
        assert unit.min() >= 0 and unit.max() <= 1 and unit.max() - unit.min() > 0.5
    if kind == "ink":
        assert not unit[:, 0].any() and not unit[:, :, -1].any()
    # A channel without variance would be divided by epsilon alone.
    assert unit.reshape(40, -1).std(axis=0).max() > 0.05
    assert unit.std(axis=(0, 1, 2)).min() > 0.05


@each("kind", OF_TOKENS)
def test_token_ids(kind):
    made = synthetic_rows((50,), 200, kind=kind, value_range=(1, 9))
    assert made.dtype == np.int32 and set(made.ravel()) == set(range(1, 10))
    counts = np.bincount(made.ravel())[1:]
    least = {"tokens": 0.85, "zipf": 0.85 * 9}[kind]
    assert least < counts[0] / counts[-1] < least * 1.5


def rows_of(kind=None, shape=(4, 4, 1), n=3, **settings):
    return lambda: synthetic_rows(shape, n, kind=kind, **settings)


@each(
    ("call", "match"),
    [
        (rows_of("strokes", (5,)), r"shape .*got \(5,\)"),
        (rows_of("stripes"), "kind .*'stripes'"),
        (rows_of(n=1), "n to be"),
        (rows_of(seed=-1), "seed"),
        (rows_of(shape=(0, 3, 1)), "entry of shape"),
        (rows_of(value_range=(1, 1)), "value_range"),
        (rows_of(value_range=(0, float("inf"))), "value_range"),
        (rows_of(value_range=3), "value_range"),
        (rows_of("zipf", (5,)), "value_range .*zipf"),
        (rows_of("zipf", (5,), value_range=(0.0, 3.0)), "value_range"),
        (rows_of("tokens", (5,), value_range=(-1, 3)), "value_range"),
        *((lambda n=n: SyntheticRows.named(n), "Expected") for n in ("synthetic:", "kmnist")),
        (lambda: SyntheticRows.named("synthetic:stripes"), "Expected"),
        (lambda: SyntheticRows("uniform").rows((4,), num_tokens=7), "token ids .*'uniform'"),
        (lambda: SyntheticRows("zipf").rows((4,)), "numbers .*'zipf'"),
    ],
)
def test_rows_that_cannot_be_made_are_rejected(call, match):
    with pytest.raises((ValueError, TypeError), match=match):
        call()
