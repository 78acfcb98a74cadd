"""Training per person beside training per row: persons, noise, records and their table."""

import numpy as np
import pytest

from tfdpnorm.data import Examples
from tfdpnorm.privacy.accountants import epsilon_at
from tfdpnorm.privacy.profiles import composed_profile
from trainers.ours import persons
from trainers.ours.persons_runs import (
    CHOSEN,
    DELTA,
    EPSILONS,
    KINDS,
    NETWORKS,
    WAYS,
    PersonsRun,
    runs,
)
from trainers.records.fields import PERSONS_FIELDS


@pytest.mark.parametrize("kind", KINDS)
def test_persons_have_one_to_ten_rows(kind):
    labels = np.random.default_rng(0).integers(10, size=20_000)
    owners = persons.synthetic_persons(labels, kind, seed=1)
    sizes = np.bincount(owners)
    assert sizes.min() >= 1 and sizes.max() == 10
    shares = np.bincount(sizes)[1:] / len(sizes)
    np.testing.assert_allclose(shares, 0.1, atol=0.02)
    of_first = labels[owners == 0]
    several = np.array([len(set(labels[owners == p])) > 1 for p in range(300)])
    assert (several.mean() > 0.7) if kind == "mixed" else not several.any()
    assert len(of_first) == sizes[0]
    assert (owners != persons.synthetic_persons(labels, kind, seed=2)).any()


def test_up_to_so_many_rows_of_each_person_are_kept():
    owners = np.random.default_rng(0).integers(40, size=300)
    for most in (1, 3, 300):
        kept = persons.kept_rows(owners, most, seed=0)
        assert len(set(kept)) == len(kept)
        np.testing.assert_array_equal(
            np.bincount(owners[kept], minlength=40),
            np.minimum(np.bincount(owners, minlength=40), most),
        )
    assert (persons.kept_rows(owners, 1, 0) != persons.kept_rows(owners, 1, 1)).any()


@pytest.mark.parametrize("rows", [1, 3])
def test_the_noise_is_the_least_that_protects_a_person(rows):
    noise = persons.noise_for_person(3.0, 0.2, 20, rows)

    def epsilon(noise):
        return epsilon_at(composed_profile(((0.2, noise, 20),), DELTA, rows), DELTA)

    assert epsilon(noise) <= 3.0 < epsilon(0.99 * noise)


@pytest.mark.parametrize("number", [0, 3, 6])
def test_each_way_has_the_epsilon_that_it_says(number, monkeypatch):
    way = WAYS[number]
    monkeypatch.setitem(CHOSEN, "digits", {way: ((0.5, 0.1),) * len(EPSILONS)})
    monkeypatch.setitem(NETWORKS, "digits", NETWORKS["digits"] | {"epochs": 1})
    rng = np.random.default_rng(0)
    train, test = (
        Examples(
            "toy", split, rng.random((80, 8, 8, 1), np.float32), rng.integers(10, size=80), 10, True
        )
        for split in ("train", "test")
    )
    record = persons.persons_record(PersonsRun("digits", "mixed", way, 3.0, 1), train, test)
    assert set(record) == set(PERSONS_FIELDS) and record["guarantee_holds"]
    assert record["updates"] == 2 and 0 <= record["test_accuracy"] <= 100
    of_row, of_person = record["epsilon_of_row"], record["epsilon_of_person"]
    if way.is_for_row:
        assert of_row <= 3.0 < 2 * 3.0 < of_person
    else:
        assert 2.9 < of_person <= 3.0
        assert (of_row is None) == (way.unit == "person")
    assert record["num_rows"] == 80 or way.unit == "row" and way.most < 10


def test_runs_of_the_first_seed_come_first():
    chosen = runs(["digits"], [1.0, 3.0], [0, 1])
    assert [run.seed for run in chosen] == sorted(run.seed for run in chosen)
    different = {(run.cell, run.seed) for run in chosen}
    assert len(different) == len(chosen) == 4 * len(KINDS) * len(WAYS)
