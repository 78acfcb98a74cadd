"""The records and tables in results/: of the cells as they stand, and in step with each other."""

import math
import pathlib
import re

import pytest

from trainers import registry as cells
from trainers.records.store import read_records
from trainers.runs.settings import differences

RESULTS = pathlib.Path(__file__).resolve().parents[3] / "results"
# Of the other paper not every table is trained.
KEPT = [e for e in cells.EXPERIMENTS if e.startswith("davody") or read_records(RESULTS, e)]


@pytest.mark.parametrize("experiment", KEPT)
def test_kept_records_have_the_settings_of_their_cells(experiment):
    """A sweep would train the others anew, though the tables show them."""
    specs = {spec.cell: spec for spec in cells.cells(experiment)}
    records = read_records(RESULTS, experiment)
    assert records
    others = {
        (record["cell"], record["seed"]): differences(specs[record["cell"]], record["flags"])
        for record in records
    }
    assert {run: names for run, names in others.items() if names} == {}
    assert len(others) == len(records)  # no run is kept twice


@pytest.mark.parametrize("experiment", KEPT)
def test_kept_records_say_of_their_scale_what_their_cells_say(experiment):
    specs = {spec.cell: spec.run for spec in cells.cells(experiment)}
    for record in read_records(RESULTS, experiment):
        said = record["scale"].split("; ")
        of_settings = list(filter(None, specs[record["cell"]].reduced.split("; ")))
        assert [part for part in said if part in of_settings] == of_settings, record["cell"]
        others = [part for part in said if part not in of_settings]
        others = [part for part in others if not part.startswith("from another archive")]
        examples = all(re.search(" (pre-)?training (examples|images)", part) for part in others)
        assert examples or (others, of_settings) == (["full"], []), record["cell"]


@pytest.mark.parametrize("experiment", KEPT)
def test_kept_records_have_the_papers_figures_of_their_cells(experiment):
    figures = {spec.cell: spec.run.paper_value for spec in cells.cells(experiment)}
    for record in read_records(RESULTS, experiment):
        assert record["paper_value"] == figures[record["cell"]]


@pytest.mark.parametrize("experiment", KEPT)
def test_kept_records_spent_no_more_than_their_budget(experiment):
    for record in read_records(RESULTS, experiment):
        target = record["epsilon_target"]
        if record["guarantee_holds"] and record["epsilon_claimed"] is not None:
            # The noise of a paper's claim: what holds is another epsilon.
            assert 0 < record["epsilon"] < math.inf
        elif record["guarantee_holds"]:
            assert 0 < record["epsilon"] <= target < math.inf
            assert record["epsilon"] == record[f"epsilon_{record['accountant']}"]
        else:
            assert record["no_guarantee_because"] and record["epsilon"] == math.inf


@pytest.mark.parametrize("experiment", [*KEPT, "klause_table4"])
def test_kept_tables_count_the_records_beside_them(experiment):
    """Some are made of the records of others, too."""
    text = (RESULTS / f"{experiment}.md").read_text()
    shown = {spec.cell for spec in cells.cells(experiment)}
    count = sum(
        record["cell"] in shown
        for source in cells.sources(experiment)
        for record in read_records(RESULTS, source)
    )
    assert text.startswith(f"Made from {count} records by ")
