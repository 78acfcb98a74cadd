"""Tables and plots say what the records say, and never more."""

import re

import numpy as np
import pytest

from tests.each import each
from trainers.report import captions, plots, tables

INF = float("inf")


def is_png(path):
    content = path.read_bytes()
    return content.startswith(b"\x89PNG\r\n") and len(content) > 1000


def labels(axes):
    return axes.get_legend_handles_labels()[1]


def cells_of(table):
    """Dict (network, column) -> entry of a Markdown table."""
    lines = [[part.strip() for part in line.strip("|").split("|")] for line in table.splitlines()]
    header, _, *rows = lines
    assert all(len(row) == len(header) for row in rows)
    return {(row[0], name): entry for row in rows for name, entry in zip(header, row, strict=True)}


def test_run_table_has_a_line_for_each_run(make_record, unprotected_record):
    table = tables.run_table(
        [
            make_record(),
            make_record(cell="none/eps=1", test_accuracy_ema=None),
            unprotected_record(test_accuracy=98.76),
        ]
    )
    header, rule, first, second, third = table.splitlines()
    assert set(rule) == {"-", " "}
    assert re.split(r"\s{2,}", first) == ["public_batch/eps=1", "95.25", "96.50", "0.9994", "yes"]
    assert re.split(r"\s{2,}", second) == ["none/eps=1", "95.25", "-", "0.9994", "yes"]
    assert re.split(r"\s{2,}", third) == [
        "public_batch/eps=inf",
        "98.76",
        "96.50",
        "-",
        "NO GUARANTEE",
    ]
    # Aligned: every column starts where its heading does.
    for name in ("test accuracy %", "weight average %", "epsilon spent", "guarantee holds"):
        start = header.index(name)
        assert all(line[start - 1] == " " != line[start] for line in (first, second, third))


def test_run_table_gives_no_epsilon_without_a_guarantee(make_record):
    record = make_record(guarantee_holds=False, epsilon=0.1234, no_guarantee_because=["lot"])
    assert "0.123" not in tables.run_table([record])
    assert "NO GUARANTEE" in tables.run_table([record])


@pytest.mark.parametrize("epsilon", [0.00123449, 0.123449, 1.23449, 12.3449, 123.4491])
def test_run_table_never_rounds_epsilon_down(make_record, epsilon):
    row = tables.run_table([make_record(epsilon=epsilon)]).splitlines()[-1]
    shown = float(re.split(r"\s{2,}", row)[3])
    assert epsilon <= shown <= 1.001 * epsilon


def test_experiment_table_marks_what_does_not_compare(make_record, unprotected_record):
    records = [
        make_record(cell="whole/eps=1"),
        make_record(cell="part/eps=1"),
        make_record(cell="part/eps=1", scale="first 100 of 60000 training examples"),
        make_record(cell="mixed/eps=1"),
        make_record(cell="mixed/eps=1", guarantee_holds=False, epsilon=INF),
        unprotected_record(cell="open/eps=inf"),
        make_record(cell="other/eps=1", flags={"learning_rate": 1.0}),
        make_record(cell="other/eps=1", flags={"learning_rate": 2.0}),
    ]
    entries = cells_of(tables.experiment_table(records))
    marks = {
        network: [
            m for m in ("not as in the paper", "NO GUARANTEE", "settings differ") if m in entry
        ]
        for (network, column), entry in entries.items()
        if column.startswith("eps") and entry
    }
    assert marks == {
        "whole": [],
        "part": ["not as in the paper"],
        "mixed": ["NO GUARANTEE"],
        "open": ["NO GUARANTEE"],
        "other": ["settings differ"],
    }


@pytest.mark.parametrize("function", [tables.experiment_table, plots.plot_experiment])
def test_no_records_are_an_error(function, tmp_path):
    arguments = ([],) if function is tables.experiment_table else ([], tmp_path / "a.png", "title")
    with pytest.raises(ValueError, match="at least one record.*Train a cell"):
        function(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_plot_of_runs_has_a_curve_for_each(tmp_path, drawn):
    path = plots.plot_runs(
        {"none": [(1, 0.5, 20.0), (2, 0.75, 30.0)], "layer": [(1, 0.5, 25.0)]},
        tmp_path / "new" / "runs.png",
        "DIGITS",
    )
    assert path == tmp_path / "new" / "runs.png" and is_png(path)
    (axes,) = drawn
    assert labels(axes) == ["none", "layer"]
    assert axes.lines[0].get_xydata().tolist() == [[0.5, 20.0], [0.75, 30.0]]
    assert axes.figure.get_suptitle() == "DIGITS" and "epsilon" in axes.get_xlabel()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("others", [{}, {"layer": [(1, 0.5, 25.0)]}])
def test_curves_of_infinite_epsilon_are_left_out(tmp_path, drawn, others):
    curves = {"open": [(1, INF, 50.0), (2, INF, 60.0)], **others}
    assert is_png(plots.plot_runs(curves, tmp_path / "runs.png", "title"))
    assert labels(drawn[0]) == list(others)


def test_plot_of_an_experiment_has_ours_and_the_papers_curves(tmp_path, drawn, make_record):
    def cell(norm, epsilon, accuracy, paper):
        return make_record(
            cell=f"{norm}/eps={epsilon}",
            epsilon_target=epsilon,
            test_accuracy=accuracy,
            paper_value=paper,
        )

    records = [
        cell("layer", 7.0, 95.0, None),
        cell("layer", 3.0, 90.0, 97.05),
        cell("layer", 1.0, 80.0, 96.68),
        cell("layer", 1.0, 84.0, 96.68),
        cell("none", 1.0, 70.0, None),
        cell("layer-no_views", 1.0, 60.0, 96.68),  # the paper's figure is in the plot once
    ]
    assert is_png(plots.plot_experiment(records, tmp_path / "e.png", "title"))
    (axes,) = drawn
    assert sorted(labels(axes)) == ["layer", "layer, the paper", "layer-no_views", "none"]
    (paper,) = [line for line in axes.lines if line.get_label() == "layer, the paper"]
    assert paper.get_xydata().tolist() == [[1.0, 96.68], [3.0, 97.05]]
    ours = dict(zip(labels(axes), axes.get_legend_handles_labels()[0], strict=True))["layer"]
    assert ours.lines[0].get_xydata().tolist() == [[1.0, 82.0], [3.0, 90.0], [7.0, 95.0]]
    bars = [segment.tolist() for segment in ours.lines[2][0].get_segments()]
    assert bars[0] == [[1.0, 80.0], [1.0, 84.0]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "accuracies, scale, ticks",
    [
        ([10.0, 99.2], "function", "0 20 40 60 70 80 90 95 98 99 99.5"),
        ([0.0, 100.0], "function", "0 20 40 60 70 80 90 95 98 99 99.5 100"),
        ([70.0, 95.0], "function", "70 80 90 95"),
        ([84.0, 98.0], "linear", None),
        ([10.0, 70.0], "linear", None),
    ],
)
def test_accuracies_near_100_are_told_apart(tmp_path, drawn, make_record, accuracies, scale, ticks):
    records = [
        make_record(cell=f"layer/eps={e}", epsilon_target=e, test_accuracy=a, paper_value=None)
        for e, a in zip((1.0, 3.0, 7.0), [*accuracies, accuracies[-1]], strict=True)
    ]
    assert is_png(plots.plot_experiment(records, tmp_path / "e.png", "title"))
    (axes,) = drawn
    assert axes.get_yscale() == scale
    assert ("log scale of the error" in axes.get_ylabel()) == (scale == "function")
    low, high = axes.get_ylim()
    assert low <= min(accuracies) and max(accuracies) <= high
    if ticks is not None:
        assert " ".join(label.get_text() for label in axes.get_yticklabels()) == ticks
        to_place = axes.yaxis.get_transform()
        back = to_place.inverted().transform(to_place.transform(np.array(accuracies)))
        np.testing.assert_allclose(back, accuracies, atol=1e-9)


@pytest.mark.parametrize("claimed", [None, 1.0])
@pytest.mark.parametrize("budgets", [(1.0,), (1.0, 3.0, 7.0)], ids=["bars", "lines"])
def test_long_labels_are_not_cut_off(tmp_path, drawn, make_record, claimed, budgets):
    records = [
        make_record(
            cell=f"{name}/eps={epsilon}",
            epsilon_target=epsilon,
            epsilon_claimed=claimed,
            guarantee_holds=claimed is None,
            paper_value=None,
        )
        for name in ("public_batch", "public_batch-lot")
        for epsilon in budgets
    ]
    plots.plot_experiment(records, tmp_path / "e.png", "title")
    (axes,) = drawn
    axes.figure.draw_without_rendering()
    texts = [text for text in (*axes.texts, *axes.get_yticklabels()) if "public" in text.get_text()]
    boxes = [text.get_window_extent() for text in texts]
    assert len(boxes) == 2
    assert all(0 <= box.x0 and box.x1 <= axes.figure.bbox.width for box in boxes)


@pytest.mark.parametrize("beside", [False, True])
def test_runs_without_privacy_are_drawn_unless_others_have_budgets(
    tmp_path, drawn, make_record, unprotected_record, beside
):
    fields = dict(kind="non_private", epsilon_target=None, test_accuracy=55.5, paper_value=None)
    records = [unprotected_record(**fields)] + [make_record(test_accuracy=44.4)] * beside
    plots.plot_experiment(records, tmp_path / "e.png", "title")
    (axes,) = drawn
    shown = [text.get_text() for text in axes.texts]
    assert ("55.5" in shown) != beside and ("44.4" in shown) == beside


@each(
    "scale, told",
    [
        ("full", ""),
        ("epochs 8 for 50; plateau none for test", "8 of 50 epochs"),
        (
            "2000 training examples at hand; epochs 2 for 90",
            "2,000 training examples, 2 of 90 epochs",
        ),
        ("400 lots of 32 rows", "400 batches of 32"),
        ("2 passes for 200, and others in proportion", "2 of 200 passes"),
    ],
)
def test_a_plot_tells_how_much_was_trained(make_record, scale, told):
    record = make_record(cell="layer/eps=1", scale=scale, experiment="davody_table5", delta=1e-5)
    words = "Private LeNet-5 on MNIST, delta = 1e-5, one run"
    assert captions.title("davody_table5", [record]) == words + (f"\n{told}" if told else "")


def test_plot_names_what_has_no_guarantee(tmp_path, drawn, make_record):
    records = [
        make_record(cell="layer/eps=1"),
        make_record(
            cell="public_batch/eps=1", guarantee_holds=False, epsilon=INF, paper_value=None
        ),
    ]
    plots.plot_experiment(records, tmp_path / "e.png", "title")
    shown = [label.get_text() for label in drawn[0].get_yticklabels()]
    assert shown == ["layer", "public_batch, NO GUARANTEE"]


@pytest.mark.filterwarnings("error")
def test_plot_without_a_finite_epsilon_is_empty_and_no_failure(
    tmp_path, drawn, make_record, unprotected_record
):
    records = [unprotected_record(), make_record(cell="none/z=1", epsilon_target=None)]
    assert is_png(plots.plot_experiment(records, tmp_path / "e.png", "title"))
    assert labels(drawn[0]) == []


def noisy_record(make_record, network, stddev, accuracy, curve=(), paper=None):
    return make_record(
        experiment="davody_table2",
        cell=f"{network}/stddev={stddev:g}",
        paper_value=paper,
        test_accuracy=accuracy,
        test_accuracy_ema=None,
        weight_noise_stddev=stddev,
        epsilon=INF,
        guarantee_holds=False,
        no_guarantee_because=["not private"],
        epsilon_target=None,
        curve=[{"epoch": e, "validation_accuracy": a} for e, a in enumerate(curve, start=1)],
        flags={},
    )


def test_an_entry_says_if_a_run_spent_more_than_its_column_says(make_record):
    within, over = make_record(seed=0), make_record(seed=1, epsilon=1.00171, resumes=1)
    cell = ("public_batch", "eps=1")
    assert "spent" not in cells_of(tables.experiment_table([within]))[cell]
    entry = cells_of(tables.experiment_table([within, over]))[cell]
    assert entry.endswith("; epsilon 1.002 spent")


def test_a_claim_of_the_paper_is_called_one(make_record):
    claimed = make_record(
        cell="public_batch-lot/eps=3", epsilon=INF, guarantee_holds=False, epsilon_claimed=2.99
    )
    entry = cells_of(tables.experiment_table([claimed]))["public_batch-lot", "eps=3"]
    assert entry.endswith("; epsilon claimed by the paper, NOT A GUARANTEE")


def test_plot_of_weight_noise(make_record, tmp_path, drawn):
    records = [
        noisy_record(make_record, "a", 0.0, 90.0, (), 99.0),
        noisy_record(make_record, "a", 2.0, 50.0),
        noisy_record(make_record, "a", 2.0, 60.0),
        noisy_record(make_record, "b", 2.0, 70.0, (), "no convergence"),
    ]
    assert is_png(plots.plot_weight_noise(records, tmp_path / "n.png", "title"))
    (axes,) = drawn
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines["a"] == [[0.0, 90.0], [1.0, 55.0]] and lines["b"] == [[1.0, 70.0]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "2"]
    paper = [line for line in axes.lines if line.get_linestyle() == "--" and len(line.get_xdata())]
    assert [line.get_xydata().tolist() for line in paper] == [[[0.0, 99.0]]]
    assert "the paper" in labels(axes)
    plots.plot_weight_noise(records[1:], tmp_path / "n.png", "title")
    assert labels(drawn[1]) == ["a", "b"]


def test_plot_of_curves_is_the_mean_over_runs(make_record, tmp_path, drawn):
    records = [
        noisy_record(make_record, "a", 10.0, 90.0, (10.0, 20.0)),
        noisy_record(make_record, "a", 10.0, 90.0, (30.0, 40.0)),
        noisy_record(make_record, "a", 2.0, 90.0, (50.0,)),
    ]
    assert is_png(plots.plot_curves(records, tmp_path / "c.png", "title"))
    (axes,) = drawn
    assert labels(axes) == ["a, stddev=2", "a, stddev=10"]
    assert axes.lines[1].get_xydata().tolist() == [[1.0, 20.0], [2.0, 30.0]]


def test_plot_of_training_is_the_mean_over_runs_or_has_a_line_for_each(
    make_record, tmp_path, drawn
):
    def run(network, *points):
        curve = [{"updates": u, "epsilon": 1.0, "test_accuracy": a} for u, a in points]
        return make_record(cell=f"{network}/eps=1", curve=curve, sampling_rate=0.5)

    records = [
        run("b", (2, 10.0), (4, 20.0)),
        run("b", (2, 30.0), (4, 40.0)),
        run("a", (8, 50.0)),
        run("c", (2, 10.0), (4, 20.0)),
        run("c", (3, 30.0), (4, 40.0)),  # resumed, and evaluated elsewhere
    ]
    path = tmp_path / "t.png"
    assert is_png(plots.plot_training(records, path, "title", networks=("a", "b")))
    (axes,) = drawn
    assert labels(axes) == ["a (1 run)", "b (2 runs)", "c (2 runs, a line each)"]
    assert axes.lines[0].get_xydata().tolist() == [[4.0, 50.0]]
    assert axes.lines[2].get_xydata().tolist() == [[1.0, 10.0], [2.0, 20.0]]
    assert axes.lines[3].get_xydata().tolist() == [[1.5, 30.0], [2.0, 40.0]]
    assert axes.lines[2].get_color() == axes.lines[3].get_color() != axes.lines[1].get_color()
    assert axes.lines[1].get_xydata().tolist() == [[1.0, 20.0], [2.0, 30.0]]
