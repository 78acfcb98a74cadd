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

from tests.each import each
from tfdpnorm.data import Lot, poisson, poisson_batches
from tfdpnorm.privacy.slots import Slots

Pair = collections.namedtuple("Pair", ["left", "right"])


def lots(batches, count, **kwargs):
    return list(batches.as_dataset(**kwargs).take(count))


def rows_of(lot):
    """Numbers of a lot's rows, for sets whose x holds row numbers plus 1 (so that 0 is padding)."""
    return sorted((lot.x.numpy()[lot.mask.numpy() > 0] - 1).tolist())


@settings(deadline=None, max_examples=25)
@given(
    n=st.integers(1, 60),
    share=st.floats(0.01, 1.0),
    k=st.integers(1, 4),
    p=st.integers(1, 20),
    seed=st.integers(0, 9),
)
def test_lots_have_each_example_in_a_slot_of_its_own(n, share, k, p, seed):
    x = np.arange(1, n + 1)
    batches = poisson_batches(
        x, -x.astype(np.float32), expected_batch_size=share * n, sample_weight=x * 0.5
    )
    for update, lot in enumerate(lots(batches, 3, slots=Slots(k, p), insecure_seed=seed)):
        size = int(lot.mask.numpy().sum())
        bits = poisson.insecure_bits(seed, update)
        members = poisson.poisson_rows(n, batches.sampling_rate, bits)
        assert size == min(len(members), k * p) and set(rows_of(lot)) <= set(members)
        assert all(tensor.shape == (k, p) for tensor in lot)
        drawn, mask = lot.x.numpy(), lot.mask.numpy()
        assert ((drawn > 0) == (mask == 1)).all() and ((drawn == 0) == (mask == 0)).all()
        np.testing.assert_array_equal(lot.y, -drawn)
        np.testing.assert_array_equal(lot.sample_weight, drawn * 0.5)


def test_shapes_are_static():
    batches = poisson_batches(np.ones((50, 4, 3)), np.ones(50, np.int32), expected_batch_size=10)
    dataset = batches.as_dataset(Slots(2, 6))
    assert dataset.element_spec == Lot(
        tf.TensorSpec([2, 6, 4, 3], tf.float64),
        tf.TensorSpec([2, 6], tf.int32),
        tf.TensorSpec([2, 6], tf.float32),
        tf.TensorSpec([2, 6], tf.float32),
    )
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY


def test_an_empty_lot_is_padding_in_all_slots():
    batches = poisson_batches(
        np.ones((9, 2)), np.ones(9), expected_batch_size=1e-15, sample_weight=np.ones(9)
    )
    for lot in lots(batches, 5, slots=Slots(3, 8)):
        assert lot.x.shape == (3, 8, 2)
        assert all(not tensor.numpy().any() for tensor in lot)


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
    padding = lot.mask.numpy() == 0
    assert padding.sum() == 2
    assert all(not t.numpy()[padding].any() for t in tf.nest.flatten(lot))


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
    again = [rows_of(lot) for lot in lots(batches, 6, insecure_seed=0, slots=Slots(9, 7))]
    resumed = [rows_of(lot) for lot in lots(batches, 2, insecure_seed=0, first_update=4)]
    other = [rows_of(lot) for lot in lots(batches, 6, insecure_seed=1)]
    assert first == again and first[4:] == resumed
    assert len({tuple(rows) for rows in first + other}) == 12


def test_insecure_lots_stay_what_they_are():
    """A change here would break resuming of runs begun with an earlier version."""
    batches = poisson_batches(np.arange(1, 21), expected_batch_size=5)
    assert [rows_of(lot) for lot in lots(batches, 2, insecure_seed=3)] == GOLDEN


GOLDEN = [[2, 6, 7, 9, 14, 18], [7, 9, 12, 13, 14, 17]]


@each("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(bad):
    x = np.zeros((20_000, 2), np.float32)
    x[[3, 19_999], 1] = bad
    x[19_999, 0] = bad
    with pytest.raises(ValueError, match=r"in x\[1\], got 3 .* row\(s\) \[3, 19999\]"):
        poisson_batches((np.zeros(20_000), x), expected_batch_size=1)
    with pytest.raises(ValueError, match="finite values in y"):
        poisson_batches(np.zeros(20_000), x, expected_batch_size=1)


def test_the_dataset_keeps_no_data_alive():
    batches = poisson_batches(np.zeros((50, 2), "float32"), expected_batch_size=5)
    next(iter(batches.as_dataset()))
    held = weakref.ref(batches)
    del batches
    gc.collect()
    assert held() is None


def batches_of(x=np.zeros(5), y=None, size=1, **settings):  # noqa: B008 (which nothing changes)
    return poisson_batches(x, y, expected_batch_size=size, **settings)


@each(
    "call,error,match",
    [
        *((lambda s=s: batches_of(size=s), ValueError, "expected_batch_size") for s in (0, 6)),
        *((lambda s=s: batches_of(size=s), TypeError, "expected_batch_size") for s in ("5", True)),
        (lambda: batches_of(size=float("nan")), ValueError, "expected_batch_size"),
        (
            lambda: batches_of({"a": np.zeros(3), "b": np.zeros(4)}, np.zeros(3)),
            ValueError,
            r"x\['a'\] has 3, x\['b'\] has 4, y has 3",
        ),
        (lambda: batches_of(np.zeros((0, 3))), ValueError, "at least 1 example"),
        (lambda: batches_of(()), ValueError, "no array"),
        (lambda: batches_of(3.0), ValueError, "scalar"),
        (lambda: batches_of([[1, 2], [3]]), ValueError, "unequal shapes"),
        (lambda: batches_of([np.zeros((3, 2)), np.zeros(3)]), ValueError, "not in a"),
        (lambda: batches_of(np.array(["a", 1.0], object)), TypeError, "hash_tokens"),
        (lambda: batches_of(None), TypeError, "object"),
        (lambda: batches_of(np.zeros(3, complex)), TypeError, "complex"),
        (lambda: batches_of(sample_weight=np.ones(4)), ValueError, r"shape \[5\]"),
        (lambda: batches_of(sample_weight=[1, 1, np.nan, 1, 1]), ValueError, "1 NaN"),
        (lambda: batches_of(sample_weight=[1, 1, 1, 1, -2]), ValueError, r"1 negative .* \[4\]"),
        (lambda: batches_of(sample_weight=[[1, -1]] * 4 + [[1, 1]]), ValueError, "4 negative"),
        (lambda: batches_of(sample_weight=[1, 1, 1, 1, 1e300]), ValueError, "float32"),
        (lambda: batches_of().as_dataset(insecure_seed=-1), ValueError, "insecure_seed"),
        (lambda: batches_of().as_dataset(first_update=1.5), TypeError, "first_update"),
        (lambda: batches_of().as_dataset(8), TypeError, "slots"),
    ],
)
def test_hostile_arguments(call, error, match):
    with pytest.raises(error, match=match):
        call()
