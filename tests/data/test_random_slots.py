"""Which slots the drawn examples get.

The distribution that the lemma of docs/guarantee.md asks for is checked twice: exactly, over all
orders of the random words, and by statistics of the data set that trains. Thresholds make a false
alarm rarer than one in a million.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from tests.each import each
from tfdpnorm.data import poisson, poisson_batches
from tfdpnorm.privacy.slots import Slots

FALSE_ALARM = 1e-8


def random_assignments(count, slots):
    """The equally likely assignments: `random_slots` for each order of its words."""
    orders = itertools.permutations(range(slots))
    return [
        tuple(poisson.random_slots(count, slots, lambda _, words=words: np.array(words)))
        for words in orders
    ]


# --- exactly: every injection from as many orders of the words ---


@each("count, slots", [(0, 3), (1, 1), (2, 4), (3, 5), (5, 5)])
def test_each_injection_is_equally_likely(count, slots):
    found = random_assignments(count, slots)
    every = list(itertools.permutations(range(slots), count))
    times = math.factorial(slots) // len(every)
    assert sorted(found) == sorted(every * times)


def test_equal_words_are_drawn_again():
    """The order that a sort gives to equal words is not random."""
    drawn = iter([[7, 7, 1], [5, 5, 5], [2**63, 3, 2**64 - 1]])
    found = poisson.random_slots(3, 3, lambda count: np.array(next(drawn), np.uint64))
    assert found.tolist() == [1, 0, 2] and next(drawn, None) is None


# --- of the data set that trains ---


def slots_of_lots(lots, num_examples):
    """The slot of each example in each lot, -1 if it was not drawn: [count, N]."""
    found = np.full((len(lots), num_examples), -1)
    for row, lot in zip(found, lots, strict=True):
        numbers = lot.x.numpy().reshape(-1)
        places = np.flatnonzero(numbers)
        assert lot.mask.numpy().reshape(-1)[places].all() and len(places) == lot.mask.numpy().sum()
        row[numbers[places] - 1] = places
    return found


def drawn(num_examples, rate, slots, count, **options):
    x = np.arange(1, num_examples + 1)
    batches = poisson_batches(x, expected_batch_size=rate * num_examples)
    return list(batches.as_dataset(slots, **options).take(count))


SPLIT = Slots(2, 3)


@pytest.fixture(scope="module")
def places():
    """Slots of four examples in 3,000 lots of two physical batches of three rows, q = 0.8."""
    lots = drawn(4, 0.8, SPLIT, 3_000)
    assert {lot.mask.shape for lot in lots} == {(2, 3)}  # whatever was drawn
    return slots_of_lots(lots, 4)


def assert_uniform(counts):
    assert stats.chisquare(counts).pvalue > FALSE_ALARM, counts


def test_each_slot_is_equally_likely_for_each_example(places):
    for column in places.T:
        assert_uniform(np.bincount(column[column >= 0], minlength=6))


def test_each_pair_of_slots_is_equally_likely(places):
    for i, j in itertools.combinations(range(4), 2):
        both = places[(places[:, i] >= 0) & (places[:, j] >= 0)][:, [i, j]]
        counts = np.zeros((6, 6))
        np.add.at(counts, tuple(both.T), 1)
        assert not np.diag(counts).any()  # distinct
        assert_uniform(counts[~np.eye(6, dtype=bool)])


def test_slots_do_not_depend_on_how_many_are_drawn(places):
    sizes = (places >= 0).sum(axis=1)
    slot, size = places[:, 2], sizes
    table = [np.bincount(slot[(size == n) & (slot >= 0)], minlength=6) for n in (2, 3, 4)]
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


@each("example", [0, 3])
def test_slots_of_successive_updates_are_independent(places, example):
    table = np.zeros((7, 7))
    np.add.at(table, (places[:-1, example], places[1:, example]), 1)
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


def test_removing_an_example_leaves_the_slots_of_others():
    """Jointly: three examples against the two that remain, in three slots, by the real sampler."""
    count = 2_000
    full = slots_of_lots(drawn(3, 0.6, Slots(1, 3), count), 3)[:, 1:]
    less = slots_of_lots(drawn(2, 0.6, Slots(1, 3), count), 2)
    table = np.stack([np.bincount((each + 1) @ [4, 1], minlength=16) for each in (full, less)])
    table = table[:, table.any(axis=0)]
    assert table.shape[1] == 13  # neither; one of them in 3 slots; both in 6
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


def test_slots_of_an_insecure_seed_differ_between_updates():
    found = slots_of_lots(drawn(6, 1, Slots(1, 8), 20, insecure_seed=0), 6)
    again = slots_of_lots(drawn(6, 1, Slots(1, 8), 2, insecure_seed=0, first_update=18), 6)
    assert len({tuple(row) for row in found}) == 20 and (found[18:] == again).all()
