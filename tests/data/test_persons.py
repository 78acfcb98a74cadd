"""Poisson-sampled persons: who is drawn, and which rows stand for them."""

import itertools
import warnings

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tests.each import each
from tfdpnorm.data import MappedSource, poisson_batches
from tfdpnorm.data.persons import Persons, rows_of_persons
from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.privacy.slots import Slots

FALSE_ALARM = 1e-8
COUNTS = [1, 2, 3, 3, 4, 1000]


def mixed(counts):
    """Whose each row is, in no order."""
    ids = np.repeat(np.arange(len(counts)), counts)
    return np.random.default_rng(0).permutation(ids)


def lots_of(ids, count):
    rows = np.arange(len(ids), dtype=np.float32)[:, np.newaxis]
    batches = poisson_batches(rows, ids, person=ids, most_per_person=3, expected_batch_size=3)
    dataset = batches.as_dataset(Slots(2, 5)).take(count)
    return batches, [tf.nest.map_structure(lambda t: t.numpy(), lot) for lot in dataset]


def test_a_person_is_drawn_with_their_own_rows():
    ids = mixed(COUNTS)
    batches, lots = lots_of(ids, 60)
    assert batches.num_examples == 6 and batches.sampling_rate == 0.5
    assert batches.x.shape == (len(ids), 1) and batches.most_per_person == 3
    seen = set()
    for x, y, weight, mask in lots:
        assert x.shape == (2, 5, 3, 1) and weight.shape == (2, 5, 3) and mask.shape == (2, 5)
        drawn = y[mask > 0]
        # One slot holds one person, and no person has two.
        assert (drawn == drawn[:, :1]).all() and len(set(drawn[:, 0])) == len(drawn)
        for rows, owners, weights in zip(x[mask > 0][..., 0], drawn, weight[mask > 0], strict=True):
            owner = owners[0]
            seen.add(owner)
            assert (ids[rows.astype(int)] == owner).all()
            have = min(COUNTS[owner], 3)
            assert len(set(rows)) == len(set(rows[:have])) == have
            np.testing.assert_allclose(weights, [3 / have] * have + [0] * (3 - have))
        for padding in (x[mask == 0], y[mask == 0]):
            assert not padding.any()
    assert seen == set(range(6))


def test_number_of_drawn_persons_is_binomial():
    ids = mixed(COUNTS)
    _, lots = lots_of(ids, 1500)
    drawn = np.array([[(y[mask > 0] == p).any() for p in range(6)] for _, y, _, mask in lots])
    for person in range(6):
        times = int(drawn[:, person].sum())
        assert stats.binomtest(times, len(lots), 0.5).pvalue > FALSE_ALARM
    counts = np.bincount(drawn.sum(axis=1), minlength=7)
    expected = stats.binom.pmf(np.arange(7), 6, 0.5) * len(lots)
    assert stats.chisquare(counts, expected).pvalue > FALSE_ALARM


@each("have, most", [(6, 3), (4, 1)])
def test_each_subset_of_rows_is_equally_likely(have, most):
    rng = np.random.default_rng(0)
    starts, order = np.array([0, have]), np.arange(have)
    drawn = np.zeros(40_000, int)
    bits = lambda count: rng.integers(2**64, size=count, dtype=np.uint64)  # noqa: E731
    rows = np.sort(rows_of_persons(drawn, starts, order, most, bits), axis=1)
    subsets = list(itertools.combinations(range(have), most))
    number = {subset: at for at, subset in enumerate(subsets)}
    counts = np.bincount([number[tuple(r)] for r in rows.tolist()], minlength=len(subsets))
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_the_edges_of_the_uniform_stay_within_the_persons_rows():
    starts, order = np.array([0, 2, 1002]), np.arange(1002)[::-1]
    for word in (0, 2**64 - 1):
        bits = lambda count, word=word: np.full(count, word, np.uint64)  # noqa: E731
        small, large = rows_of_persons(np.array([0, 1]), starts, order, 3, bits)
        assert small.tolist() == [1001, 1000, 1002]
        assert len(set(large)) == 3 and ((large >= 0) & (large < 1000)).all()


@each("kind", ["mapped", "texts"])
def test_rows_on_demand_and_texts(kind):
    ids = mixed([1, 2, 5, 3])
    values = np.arange(len(ids), dtype=np.float32)[:, np.newaxis]
    if kind == "texts":
        x, y, person = np.array([f"row {i}" for i in range(len(ids))], object), ids, ids.astype(str)
    else:
        y, person = None, ids

        class Rows:
            def __len__(self):
                return len(ids)

            def __getitem__(self, index):
                assert 0 <= index < len(ids)
                return values[index], ids[index]

        x = MappedSource(Rows(), lambda v, owner: (v, owner))
    batches = poisson_batches(
        x,
        y,
        person=person,
        most_per_person=2,
        expected_batch_size=4,  # all of them
    )
    lot = next(iter(batches.as_dataset(Slots(1, 8))))
    drawn = lot.mask.numpy() > 0
    assert drawn.sum() == 4
    owners = lot.y.numpy()[drawn]
    assert sorted(owners[:, 0]) == [0, 1, 2, 3] and (owners == owners[:, :1]).all()
    of_one = lot.x.numpy()[drawn][owners[:, 0] == 0][0].ravel()
    # What is missing repeats a row, and is no zeros, which a model may divide by.
    assert of_one[0] == of_one[1]
    weights = lot.sample_weight.numpy()[drawn]
    assert sorted(map(tuple, weights)) == [(1, 1), (1, 1), (1, 1), (2, 0)]


def test_weights_of_rows_and_of_steps_are_kept():
    ids = np.array([7, 7, 7, 9])
    for weight in (np.float32([1, 2, 3, 4]), np.float32([[1, 5], [2, 5], [3, 5], [4, 5]])):
        batches = poisson_batches(
            np.zeros((4, 1)),
            ids,
            person=ids,
            most_per_person=2,
            expected_batch_size=2,
            sample_weight=weight,
        )
        for lot in batches.as_dataset(Slots(1, 2)).take(20):
            order = np.argsort(lot.y.numpy()[0, :, 0])
            several, one = lot.sample_weight.numpy()[0][order]
            np.testing.assert_array_equal(one, [2 * weight[3], 0 * weight[3]])
            assert all(any((w == given).all() for given in weight[:3]) for w in several)
            assert (several[0] != several[1]).any()


WORDS = (
    ["", "  ", "nan", "None", "none", "null", "NaN", "NULL", "NA", "N/A", "n/a", "n.a.", "<NA>"]
    + ["#N/A", "#NA", "#N/A N/A", "-nan", "-1.#IND", "1.#QNAN", "\\N", "NaT", "(null)", "unknown"]
    + ["Unknown ", "missing", "not available", "?", "-", "--", ".", "...", "_", "-1", "-1.0", "-9"]
    + ["-99", "-999", "-9999", "18446744073709551615", "-9223372036854775808"]
)


@each("missing", WORDS)
def test_missing_ids_are_rejected(missing):
    """As one person, the rows of many would be protected as those of one."""
    ids = ["a", missing, "b", missing]
    for person in (np.array(ids), np.array(ids, object), np.array([i.encode() for i in ids])):
        with pytest.raises(ValueError, match="got 2 rows whose id is missing"):
            Persons(person, 1)


def test_numbers_that_missing_ids_become_are_rejected():
    """Codes of pandas are -1 where an id is missing, and NaN as an integer is the least one."""
    with np.errstate(invalid="ignore"):
        of_nan = np.array([1.0, np.nan, np.nan]).astype(np.int64)
    sentinels = [-1, -9, -99, -999, -9999, -(2**31), -(2**63), 2**32 - 1]
    of_sentinels = [np.array([3, value, value]) for value in sentinels]
    limits = [(np.int16, -(2**15)), (np.int32, -(2**31)), (np.uint16, 2**16 - 1)]
    limits += [(np.uint32, 2**32 - 1), (np.uint64, 2**64 - 1), (np.int8, -1)]
    of_limits = [np.array([3, value, value], dtype) for dtype, value in limits]
    for person in (*of_sentinels, *of_limits, of_nan):
        with pytest.raises(ValueError, match="got 2 rows whose id is missing"):
            Persons(person, 1)


def test_an_id_of_very_many_rows_is_warned_of():
    ids = np.repeat(np.arange(7001, 7009), [1, 2, 3, 1, 2, 3, 1, 37])
    with pytest.warns(PrivacyWarning, match="most_per_person") as caught:
        Persons(ids, 3)
    (said,) = caught
    # Whose it is and how many rows there are stays unsaid.
    assert "7008" not in str(said.message) and "37" not in str(said.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Persons(ids, 4)  # near the number that is planned for
        Persons(np.repeat([1, 2, 3], 40), 1)  # all persons have many


@each(
    ("person", "most", "error", "words"),
    [
        ([1, 2], 2, ValueError, "got 2"),
        ([1.0, 2.0, 3.0], 2, TypeError, "float64"),
        ([[1], [2], [3]], 2, TypeError, r"\[3, 1\]"),
        (["a", None, "b"], 2, ValueError, "got 1 rows"),
        (np.array(["a", 1, "b"], object), 2, TypeError, "object"),
        ([1, 2, 3], 0, ValueError, "most_per_person"),
        ([1, 2, 3], 1.5, TypeError, "most_per_person"),
        ([1, 2, 3], None, ValueError, "only person"),
        (None, 3, ValueError, "only most_per_person"),
        ([1, 1, 2], 1, ValueError, "expected_batch_size=3 and 2 examples"),
    ],
)
def test_invalid_vectors_of_persons_are_rejected(person, most, error, words):
    with pytest.raises(error, match=words):
        poisson_batches(
            np.zeros((3, 1)), person=person, most_per_person=most, expected_batch_size=3
        )
