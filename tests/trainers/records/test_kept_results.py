"""The records and tables in results/: of the cells as they stand, and in step with each other."""

import functools
import math
import pathlib
import re

from trainers import registry as cells
from trainers.paper_items import PAGE, counted
from trainers.records.store import read_records
from trainers.rerun import spec_of
from trainers.runs.settings import differences

RESULTS = pathlib.Path(__file__).resolve().parents[3] / "results"


@functools.cache
def kept():
    """The records and the specs of each experiment of which there are any."""
    records = read_records(RESULTS)
    # Of the other papers not every table is trained.
    return {
        name: (of_name, {spec.cell: spec for spec in cells.cells(name)})
        for name in cells.EXPERIMENTS
        if (of_name := [r for r in records if r["experiment"] == name]) or name.startswith("davody")
    }


def test_kept_records_have_the_settings_of_their_cells():
    """A sweep would train the others again, though the tables show them."""
    for experiment, (records, specs) in kept().items():
        assert records, experiment
        others = {
            (record["cell"], record["seed"]): differences(specs[record["cell"]], record["flags"])
            for record in records
        }
        assert {run: names for run, names in others.items() if names} == {}
        assert len(others) == len(records)  # no run is kept twice


def test_kept_records_can_be_made_again():
    """The spec that `trainers.rerun` trains is that of the cell, with the seed of the run."""
    for records, specs in kept().values():
        for record in records:
            spec = spec_of(record)
            cell = specs[record["cell"]].replaced(seed=record["seed"])
            assert differences(spec, record["flags"]) == differences(spec, cell.settings) == []
            assert (spec.kind, spec.seed) == (record["kind"], record["seed"])


def test_kept_records_say_of_scale_and_paper_what_their_cells_say():
    for records, specs in kept().values():
        for record in records:
            spec = specs[record["cell"]]
            assert record["kind"] == spec.kind and record["paper_value"] == spec.run.paper_value
            said = record["scale"].split("; ")
            of_settings = list(filter(None, spec.run.reduced.split("; ")))
            assert [part for part in said if part in of_settings] == of_settings, record["cell"]
            others = [part for part in said if part not in of_settings]
            others = [part for part in others if not part.startswith("from another archive")]
            examples = all(re.search(" (pre-)?training (examples|images)", x) for x in others)
            assert examples or (others, of_settings) == (["full"], []), record["cell"]


def test_kept_records_spent_no_more_than_their_budget():
    for record in (record for records, _ in kept().values() for record in records):
        target = record["epsilon_target"]
        if record["guarantee_holds"] and record["epsilon_claimed"] is not None:
            # The noise of a paper's claim: what holds is another epsilon.
            assert 0 < record["epsilon"] < math.inf
        elif record["guarantee_holds"]:
            assert 0 < record["epsilon"] <= target < math.inf
            assert record["epsilon"] == record[f"epsilon_{record['accountant']}"]
        else:
            assert record["no_guarantee_because"] and record["epsilon"] == math.inf


def test_the_states_of_the_papers_items_are_those_of_the_records():
    page = PAGE.read_text("utf-8")
    assert counted(page) == page
