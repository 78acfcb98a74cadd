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
