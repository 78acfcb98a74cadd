"""Notes below the tables of Davody et al. (2020) are computed from the records."""

import pytest

from trainers.davody import notes as claims
from trainers.davody import published, slowdown


@pytest.fixture
def noisy(make_record):
    """Returns a function that makes the record of a run with noise in the weights."""

    def make(network, stddev, accuracy, curve=(), **fields):
        points = [{"epoch": e, "validation_accuracy": a} for e, a in enumerate(curve, 1)]
        return make_record(
            cell=f"{network}/stddev={stddev:g}",
            kind="non_private",
            weight_noise_stddev=stddev,
            test_accuracy=accuracy,
            curve=points,
            epsilon_target=None,
            **fields,
        )

    return make


@pytest.mark.parametrize(
    "fast, slow, expected",
    [
        ([90], [20, 50, 90], ("1", "3", "over 2")),
        ([50, 90], [20, 20, 50, 90], ("2", "4", "1.5 to 4")),
        ([50, 90], [20, 20, 50], ("2", "more than 3", "over 1.5")),
        ([90], [90], ("1", "1", "not known")),
        ([50], [90], None),
    ],
)
def test_a_slow_down_is_given_within_bounds(fast, slow, expected):
    assert slowdown.factor(fast, slow, 90) == expected


def test_the_figures_notes_have_a_row_for_each_level_that_is_reached(noisy):
    records = [
        noisy("batch-lenet5", 1.0, 96, curve=[80, 96]),
        noisy("batch-lenet5", 10.0, 60, curve=[10, 40, 60]),
    ]
    said, table, *unreached = slowdown.notes(records)
    assert "a factor of order 7" in said
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in table.splitlines()]
    found = {row[1]: row[2:] for row in rows[2:]}
    assert found["50"] == ["1", "3", "over 2"] == found["60"]  # 60: the best at 10
    assert found["95"] == ["2", "more than 3", "over 1.5"]
    assert unreached == ["batch-lenet5: no curve at 10 reaches what the one at 1 does in the end."]
    records[1] = noisy("batch-lenet5", 10.0, 97, curve=[10, 40, 97])
    assert len(slowdown.notes(records)) == 2


def test_an_order_that_is_not_the_papers_is_named(make_record):
    def run(network, accuracy):
        return make_record(cell=f"{network}/eps=1", test_accuracy=accuracy)

    figures = claims._private_figures(published.TABLE5)
    better = [run("none", 94.0), run("layer", 95.0)]
    assert claims._better("layer", "none", better, figures) == []
    (note,) = claims._better("layer", "none", [run("none", 95.0), run("layer", 94.0)], figures)
    assert "layer is not above none at eps=1" in note and "Nor" not in note
    at_least = [
        make_record(cell=f"{network}/eps=0.05", test_accuracy=accuracy)
        for network, accuracy in (("none", 80.0), ("layer", 79.0))
    ]
    (note,) = claims._better("layer", "none", at_least, figures)
    assert "Nor is it in the paper's own table at eps=0.05" in note
