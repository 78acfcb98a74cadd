"""Which runs of a sweep are left, and how long they take."""

import re

import pytest

from tests.trainers.sweeps.sweep_doubles import TABLE, Trainer, names, record_of, write
from trainers.sweeps.runs import estimate, listing, select, time_left

# --- which runs ---


@pytest.mark.parametrize(
    "patterns, chosen",
    [
        ([], [0, 1, 2]),
        (["layer/eps=1", "none/eps=1"], [1, 2]),
        (["*/eps=1"], [1, 2]),
        (["none/*", "none/eps=1"], [0, 1]),
        (["none/eps=[!i]*"], [1]),
    ],
)
def test_patterns_choose_cells_in_the_tables_order(patterns, chosen):
    assert select(TABLE, 1, patterns) == [TABLE[index] for index in chosen]
    alone = select(TABLE, 1, patterns, first_seed=7)
    assert alone == [TABLE[index].replaced(seed=7) for index in chosen]


@pytest.mark.parametrize(
    "seeds, patterns, part",
    [
        (0, [], "seeds to be a whole number >= 1, got 0"),
        (-2, [], "seeds to be a whole number >= 1, got -2"),
        (1, ["*/eps=1", "NONE/eps=1"], "'NONE/eps=1', which matches none of none/eps=inf, none/"),
        (1, [""], "got ''"),
    ],
)
def test_invalid_arguments_are_rejected(seeds, patterns, part):
    with pytest.raises(ValueError, match=re.escape(part)):
        select(TABLE, seeds, patterns)


@pytest.mark.parametrize("bits", [0, 5, 15])
def test_remaining_runs_are_all_without_the_finished_ones(place, bits):
    """Whatever subset of records exists, and whatever others do."""
    runs = select(TABLE[:2], 2)
    recorded = [spec for index, spec in enumerate(runs) if bits >> index & 1]
    for spec in recorded:
        write(place.results, spec)
    write(place.results, TABLE[0].replaced(experiment="another_table"))
    write(place.results, TABLE[0].replaced(seed=7))
    write(place.results, TABLE[1].replaced(learning_rate=0.123))
    write(place.results, TABLE[1].replaced(network="gone"))
    before = sorted(place.results.iterdir())

    trainer = Trainer()
    assert place.sweep(trainer, TABLE[:2], seeds=2, dry_run=True) == 0
    assert trainer.calls == [] and sorted(place.results.iterdir()) == before
    assert not place.runs.exists() and "Nothing was trained" in place.text
    assert place.sweep(trainer, TABLE[:2], seeds=2) == 0
    assert trainer.trained == [name for name in names(runs) if name not in names(recorded)]
    assert f"{len(recorded)} of 4 runs done, {4 - len(recorded)} left" in place.shown[0]
    assert len(sorted(place.results.iterdir())) == len(before) + len(trainer.trained)
    assert place.sweep(trainer, TABLE[:2], seeds=2, when_done="Look!") == 0
    assert len(trainer.trained) == 4 - len(recorded) and place.shown[1:] == ["Look!"]


# --- settings ---


# --- times ---


def test_kept_records_are_asked_where_no_other_one_tells():
    ours, kept = ([record_of(TABLE[1], seconds=s)] for s in (10.0, 90.0))
    assert estimate(TABLE[1], ours, kept) == pytest.approx(10.0)
    assert estimate(TABLE[1], [], kept) == time_left(TABLE[1:2], [], 1, kept=kept) == 90.0
    run = TABLE[1].replaced(seed=1)
    assert listing([run], ours, 1, kept).endswith("1 worker: 10 s.")
    each, total = listing([run], [], 1, kept).splitlines()[1:]
    assert each.endswith("each: 90 s")
    assert total.endswith("1 worker: 90 s, by kept records, perhaps of other machines.")


def test_larger_images_take_their_time():
    small = TABLE[1].replaced(dataset="cifar10", column="small")
    large = TABLE[1].replaced(dataset="imagenette", column="large")
    # 2 epochs of 9,469 images of 160 x 160, of 50,000 of 32 x 32; 40 updates of 50 are recorded.
    assert estimate(large, [record_of(small, seconds=10.0)]) == pytest.approx(2367.5, rel=1e-2)
    assert estimate(small, [record_of(large, seconds=250.0)]) == pytest.approx(500.0)
    fewer = large.replaced(max_examples=1000)
    assert estimate(fewer, [record_of(small, seconds=10.0)]) == pytest.approx(250.0)
    resized = dict(model="a.keras", trainable="all")
    first, second = (small.replaced(image_size=size, **resized) for size in (96, 192))
    assert estimate(second, [record_of(first, seconds=10.0)]) == pytest.approx(40.0)
    # Of a frozen part the features are computed before.
    head = second.replaced(trainable="head")
    assert estimate(head, [record_of(first, seconds=10.0)]) == pytest.approx(10.0)
    words = TABLE[1].replaced(dataset="ag_news_subset", model="bilstm", column="words")
    assert estimate(words, [record_of(small, seconds=10.0)]) == pytest.approx(1200.0)
