"""Notes below the tables of Davody et al. (2020) are computed from the records."""

import pytest

from trainers import registry
from trainers.davody import notes as claims
from trainers.davody import published, slowdown

INF = float("inf")


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


@pytest.mark.parametrize("accuracy, said", [(12.0, "nor do they here"), (90.0, "lenet5 does here")])
def test_a_plain_network_that_converges_contradicts_section_2(noisy, accuracy, said):
    records = [noisy("lenet5", 0.0, 99.0), noisy("lenet5", 0.3, accuracy)]
    (note,) = [note for note in claims.of_table2(records) if note.startswith("Section 2")]
    assert said in note and f"{accuracy:.2f} %" in note


def test_a_row_that_loses_more_than_the_papers_is_named(noisy):
    records = [
        noisy("batch-resnet18-hidden", 0.0, 90.0, scale="first 5 of 9 training examples"),
        noisy("batch-resnet18-hidden", 1.0, 40.0),
        noisy("batch-resnet18", 0.0, 90.0),
        noisy("batch-resnet18", 1.0, 88.0),
    ]
    notes = "\n".join(claims.of_table3(records))
    assert "batch-resnet18-hidden loses 50.0 points at 1 (paper 6.7)" in notes
    assert "batch-resnet18 loses" not in notes
    assert "first 5 of 9 training examples" in notes
    assert "We did not try whether more updates" in notes
    records.append(noisy("batch-resnet18-hidden-24_epochs", 1.0, 45.0))
    notes = "\n".join(claims.of_table3(records))
    assert "has 40.0 % at 1, where the paper's has 86.8 %" in notes
    assert "Less reduced, at the same rate, it has 45.0 % with 24 epochs." in notes
    kept = [noisy("batch-resnet18", 0.0, 90.0), noisy("batch-resnet18", 1.0, 88.0)]
    assert "contradicts" not in "\n".join(claims.of_table3(kept))


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


@pytest.mark.parametrize("accuracy, said", [(10.5, "does not learn"), (60.0, "it learns at eps=8")])
def test_what_becomes_of_plain_vgg_is_said(make_record, accuracy, said):
    records = [
        make_record(cell="none-vgg/eps=8", test_accuracy=accuracy),
        make_record(cell="public_batch-vgg/eps=8", test_accuracy=66.0),
    ]
    note = claims.of_table6(records)[-1]
    assert said in note and f"{66 - accuracy:.1f} points at eps=8" in note


def test_lot_is_said_to_be_no_guarantee_where_it_is_shown(make_record):
    assert claims.of_statistics([make_record()]) == []
    (note,) = claims.of_statistics([make_record(statistics="lot")])
    assert "does not hold" in note


def test_normalised_logits_that_do_worse_than_no_normalisation_are_named(make_record):
    def notes(accuracy):
        accuracies = {"none": 97.0, "layer": 98.0, "public_batch": 98.5, "layer-all": accuracy}
        records = [
            make_record(cell=f"{network}/eps=3", test_accuracy=value)
            for network, value in accuracies.items()
        ]
        return "\n".join(claims.of_table5(records))

    assert "layer-all is not above none at eps=3." in notes(96.0)
    assert "Not as in the paper" not in notes(97.5)


def test_table_5_says_why_it_has_no_row_of_lot(make_record):
    (note,) = [n for n in claims.of_table5([make_record()]) if "Algorithm 1" in n]
    assert "is not trained at this scale" in note
    (note,) = [n for n in claims.of_table5([make_record(statistics="lot")]) if "Algorithm 1" in n]
    assert "does not hold" in note


def test_the_papers_standard_errors_are_in_their_cells():
    errors = registry.table_form("davody_table2").errors
    assert errors["lenet_300_100/stddev=0.01"] == 0.30 and errors["layer-lenet5/stddev=2"] == 0.07
    assert errors["lenet5/stddev=1"] is None
    errors = registry.table_form("davody_table3").errors
    assert errors["batch-vgg-mod/stddev=0.1"] == 6.91 and errors["batch-vgg/stddev=2"] == 0.14
