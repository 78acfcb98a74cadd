"""Tables and plots say what the records say, and never more."""

import re

import pytest

from trainers.report import plots, tables

INF = float("inf")


def cells_of(table):
    """Dict (network, column) -> entry of a Markdown table."""
    lines = [[part.strip() for part in line.strip("|").split("|")] for line in table.splitlines()]
    header, _, *rows = lines
    assert all(len(row) == len(header) for row in rows)
    return {(row[0], name): entry for row in rows for name, entry in zip(header, row, strict=True)}


def test_run_table_gives_no_epsilon_without_a_guarantee(make_record):
    record = make_record(guarantee_holds=False, epsilon=0.1234, no_guarantee_because=["lot"])
    assert "0.123" not in tables.run_table([record])
    assert "NO GUARANTEE" in tables.run_table([record])


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


def test_an_entry_says_if_a_run_spent_more_than_its_column_says(make_record):
    within, over = make_record(seed=0), make_record(seed=1, epsilon=1.00171, resumes=1)
    cell = ("public_batch", "eps=1")
    assert "spent" not in cells_of(tables.experiment_table([within]))[cell]
    entry = cells_of(tables.experiment_table([within, over]))[cell]
    assert entry.endswith("; epsilon 1.002 spent")


@pytest.mark.parametrize("epsilon", [0.00123449, 0.123449, 1.23449, 12.3449, 123.4491])
def test_run_table_never_rounds_epsilon_down(make_record, epsilon):
    row = tables.run_table([make_record(epsilon=epsilon)]).splitlines()[-1]
    shown = float(re.split(r"\s{2,}", row)[3])
    assert epsilon <= shown <= 1.001 * epsilon
