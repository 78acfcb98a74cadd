"""Notes below the tables of Davody et al. (2020) are computed from the records."""

import pytest

from trainers.davody import notes as claims
from trainers.davody import published, slowdown


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


@pytest.mark.parametrize(
    "runs, scale, contradicts",
    [(3, "full", True), (2, "full", False), (3, "epochs 4 for 25", False), (1, "full", False)],
)
def test_only_several_whole_runs_contradict_the_paper(make_record, runs, scale, contradicts):
    """LeNet-5 with batch normalisation loses nothing in the paper, and 20 points here."""
    records = [
        make_record(
            cell=f"batch-lenet5/stddev={stddev}", test_accuracy=accuracy + seed, scale=scale
        )
        for stddev, accuracy in ((0, 96.0), (2, 76.0))
        for seed in range(runs)
    ]
    (note,) = claims._robustness(records, published.TABLE2)
    assert ("contradicts the paper's" in note) == contradicts
    assert "batch-lenet5 20.0 points at 2" in note
