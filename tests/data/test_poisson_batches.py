"""Lots: layout, padding, validation, secrecy and repetition."""

import collections
import gc
import random
import weakref

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdpnorm.data import Lot, poisson_batches

Pair = collections.namedtuple("Pair", ["left", "right"])


def lots(batches, count, **kwargs):
    return list(batches.as_dataset(**kwargs).take(count))


def rows_of(lot):
    """Numbers of a lot's rows, for sets whose x holds row numbers plus 1 (so that 0 is padding)."""
    return (lot.x.numpy()[lot.mask.numpy() > 0] - 1).tolist()


@settings(deadline=None, max_examples=25)
@given(
    n=st.integers(1, 60),
    share=st.floats(0.01, 1.0),
    limit=st.none() | st.integers(1, 80),
    seed=st.integers(0, 9),
)
def test_lots_are_laid_out_with_padding_behind(n, share, limit, seed):
    x = np.arange(1, n + 1)
    batches = poisson_batches(
        x, -x.astype(np.float32), expected_batch_size=share * n, sample_weight=x * 0.5
    )
    p = batches.physical_rows(limit)
    assert p <= (limit or p) and p <= 8 * -(-n // 8)
    for lot in lots(batches, 3, physical_batch_size=limit, insecure_seed=seed):
        k = lot.mask.shape[0]
        for tensor in lot:
            assert tensor.shape == (k, p)
        mask = lot.mask.numpy().reshape(-1)
        size = int(mask.sum())
        assert k == max(1, -(-size // p))
        assert mask.tolist() == [1.0] * size + [0.0] * (k * p - size)
        drawn = lot.x.numpy().reshape(-1)
        assert len(set(drawn[:size])) == size and (drawn[size:] == 0).all()
        np.testing.assert_array_equal(lot.y.numpy().reshape(-1), -drawn)
        np.testing.assert_array_equal(lot.sample_weight.numpy().reshape(-1), drawn * 0.5)


def test_the_spec_is_static_but_for_the_number_of_physical_batches():
    batches = poisson_batches(np.ones((50, 4, 3)), np.ones(50, np.int32), expected_batch_size=10)
    dataset = batches.as_dataset(physical_batch_size=6)
    assert dataset.element_spec == Lot(
        tf.TensorSpec([None, 6, 4, 3], tf.float64),
        tf.TensorSpec([None, 6], tf.int32),
        tf.TensorSpec([None, 6], tf.float32),
        tf.TensorSpec([None, 6], tf.float32),
    )
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY


def test_a_lot_above_the_physical_size_is_kept_whole():
    batches = poisson_batches(np.arange(1, 101), expected_batch_size=100)
    (lot,) = lots(batches, 1, physical_batch_size=7)
    assert lot.x.shape == (15, 7)
    assert rows_of(lot) == list(range(100))


def test_an_empty_lot_is_one_physical_batch_of_padding():
    batches = poisson_batches(
        np.ones((9, 2)), np.ones(9), expected_batch_size=1e-15, sample_weight=np.ones(9)
    )
    for lot in lots(batches, 5):
        assert lot.x.shape == (1, 8, 2)
        assert all(not tensor.numpy().any() for tensor in lot)


@pytest.mark.parametrize(
    "n,size,expected",
    [(60_000, 1024, 1152), (1, 1, 8), (100, 100, 104), (10, 5, 16), (16, 12, 16), (1000, 1, 8)],
)
def test_physical_rows(n, size, expected):
    batches = poisson_batches(np.zeros(n), expected_batch_size=size)
    assert batches.physical_rows() == expected
    assert batches.physical_rows(10**6) == expected  # Larger than needed: not padded needlessly.
    assert batches.physical_rows(3) == 3
    assert (batches.num_examples, batches.expected_batch_size) == (n, size)
    assert batches.sampling_rate == size / n


def test_structures_and_types_are_kept():
    n = 6
    x = {"a": np.ones((n, 2), np.float16), "b": (np.ones(n, bool), Pair([1] * n, tf.ones([n, 3])))}
    y = (np.ones(n, np.uint8), {"c": np.ones((n, 1), ">f8")})
    (lot,) = lots(poisson_batches(x, y, expected_batch_size=n), 1)
    assert isinstance(lot, Lot) and isinstance(lot.x["b"][1], Pair)
    shapes = tf.nest.map_structure(lambda t: (t.dtype.name, tuple(t.shape)), lot)
    assert shapes.x == {
        "a": ("float16", (1, 8, 2)),
        "b": (("bool", (1, 8)), Pair(("int64", (1, 8)), ("float32", (1, 8, 3)))),
    }
    assert shapes.y == (("uint8", (1, 8)), {"c": ("float64", (1, 8, 1))})
    assert all(not t.numpy()[0, n:].any() for t in tf.nest.flatten(lot))


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4"])
def test_number_types_are_kept(dtype):
    (lot,) = lots(poisson_batches(np.arange(1, 9, dtype=dtype), expected_batch_size=8), 1)
    assert lot.x.numpy().dtype == dtype and lot.x.numpy()[0].tolist() == list(range(1, 9))


def test_without_y_the_lot_holds_none_also_inside_a_function():
    batches = poisson_batches(np.ones(10, np.float32), expected_batch_size=10)

    @tf.function
    def total(iterator):
        lot = next(iterator)
        assert lot.y is None
        return tf.reduce_sum(lot.x) + tf.reduce_sum(lot.sample_weight)

    assert total(iter(batches.as_dataset())) == 20


def test_changing_the_array_afterwards_changes_nothing():
    x = np.ones(8)
    batches = poisson_batches(x, expected_batch_size=8)
    x[:] = np.nan
    assert lots(batches, 1)[0].x.numpy().sum() == 8


def seed_everything():
    random.seed(0)
    np.random.seed(0)
    tf.keras.utils.set_random_seed(0)


def test_secret_lots_never_repeat_whatever_is_seeded():
    batches = poisson_batches(np.arange(1, 201), expected_batch_size=100)
    drawn = []
    dataset = batches.as_dataset()
    for fresh in (dataset, dataset, batches.as_dataset(), dataset.repeat(2)):
        seed_everything()
        drawn.extend(tuple(rows_of(lot)) for lot in fresh.take(3))
    assert len(set(drawn)) == len(drawn)


def test_insecure_lots_depend_on_seed_and_update_alone():
    batches = poisson_batches(np.arange(1, 201), expected_batch_size=50)
    first = [rows_of(lot) for lot in lots(batches, 6, insecure_seed=0)]
    again = [rows_of(lot) for lot in lots(batches, 6, insecure_seed=0, physical_batch_size=7)]
    resumed = [rows_of(lot) for lot in lots(batches, 2, insecure_seed=0, first_update=4)]
    other = [rows_of(lot) for lot in lots(batches, 6, insecure_seed=1)]
    assert first == again and first[4:] == resumed
    assert len({tuple(rows) for rows in first + other}) == 12


def test_keyed_lots_depend_on_key_and_update_alone():
    batches = poisson_batches(np.arange(1, 201), expected_batch_size=50)
    first = [rows_of(lot) for lot in lots(batches, 12, secret_key=b"one")]
    again = [rows_of(lot) for lot in lots(batches, 12, secret_key=b"one", physical_batch_size=7)]
    resumed = [rows_of(lot) for lot in lots(batches, 2, secret_key=b"one", first_update=10)]
    other = [rows_of(lot) for lot in lots(batches, 12, secret_key=b"other")]
    assert first == again and first[10:] == resumed
    assert len({tuple(rows) for rows in first + other}) == 24


def test_insecure_lots_stay_what_they_are():
    """A change here would break resuming of runs begun with an earlier version."""
    batches = poisson_batches(np.arange(1, 21), expected_batch_size=5)
    assert [rows_of(lot) for lot in lots(batches, 2, insecure_seed=3)] == GOLDEN


GOLDEN = [[2, 6, 7, 9, 14, 18], [7, 9, 12, 13, 14, 17]]


@pytest.mark.parametrize("size", [0, -1, 11, float("nan"), float("inf")])
def test_batch_size_out_of_range(size):
    with pytest.raises(ValueError, match=rf"expected_batch_size={size} and 10 examples"):
        poisson_batches(np.zeros(10), expected_batch_size=size)


@pytest.mark.parametrize("size", [None, "5", True, 1j])
def test_batch_size_is_no_number(size):
    with pytest.raises(TypeError, match="expected_batch_size to be a number"):
        poisson_batches(np.zeros(10), expected_batch_size=size)


def test_unequal_lengths_are_listed():
    with pytest.raises(ValueError, match=r"x\['a'\] has 3, x\['b'\] has 4, y has 3"):
        poisson_batches({"a": np.zeros(3), "b": np.zeros(4)}, np.zeros(3), expected_batch_size=1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(bad):
    x = np.zeros((20_000, 2), np.float32)
    x[[3, 19_999], 1] = bad
    x[19_999, 0] = bad
    with pytest.raises(ValueError, match=r"in x\[1\], got 3 .* row\(s\) \[3, 19999\]"):
        poisson_batches((np.zeros(20_000), x), expected_batch_size=1)
    with pytest.raises(ValueError, match="finite values in y"):
        poisson_batches(np.zeros(20_000), x, expected_batch_size=1)


@pytest.mark.parametrize(
    "x,error,match",
    [
        (np.zeros((0, 3)), ValueError, "at least 1 example"),
        ((), ValueError, "at least one array"),
        (3.0, ValueError, "scalar"),
        ((1, 2), ValueError, "scalar"),
        ([[1, 2], [3]], ValueError, "unequal shapes"),
        ([np.zeros((3, 2)), np.zeros(3)], ValueError, "inputs go in a tuple or a dict, not in a"),
        (np.array(["a", 1.0], object), TypeError, "hash_tokens"),
        (None, TypeError, "dtype object"),
        (np.zeros(3, complex), TypeError, "complex"),
    ],
)
def test_hostile_arrays(x, error, match):
    with pytest.raises(error, match=match):
        poisson_batches(x, expected_batch_size=1)


@pytest.mark.parametrize(
    "weight,match",
    [
        (np.ones(4), r"shape \[5\]"),
        (np.ones((4, 2)), r"shape \[4, 2\]"),
        ([1, 1, np.nan, 1, 1], "1 NaN"),
        ([1, 1, 1, 1, -2], r"1 negative .* \[4\]"),
        ([[1, 1], [1, -1], [1, 1], [1, 1], [-2, -2]], r"2 negative .* \[1, 4\]"),
        ([1, 1, 1, 1, 1e300], "as float32"),
    ],
)
def test_hostile_weights(weight, match):
    with pytest.raises(ValueError, match=match):
        poisson_batches(np.zeros(5), expected_batch_size=1, sample_weight=weight)


@pytest.mark.parametrize(
    "name,least", [("physical_batch_size", 1), ("insecure_seed", 0), ("first_update", 0)]
)
def test_hostile_dataset_arguments(name, least):
    batches = poisson_batches(np.zeros(5), expected_batch_size=1)
    with pytest.raises(ValueError, match=f"{name} to be an integer >= {least}, got"):
        batches.as_dataset(**{name: least - 1})
    for value in (1.5, "1", True):
        with pytest.raises(TypeError, match=f"{name} to be an integer"):
            batches.as_dataset(**{name: value})


def test_the_dataset_keeps_no_data_alive():
    batches = poisson_batches(np.zeros((50, 2), "float32"), expected_batch_size=5)
    next(iter(batches.as_dataset()))
    held = weakref.ref(batches)
    del batches
    gc.collect()
    assert held() is None
