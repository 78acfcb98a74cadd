"""All experiments by name: their cells, and how one is run.

A paper is a folder with a dict `EXPERIMENTS` from the name of each experiment to the function that
returns its specs. Cells are listed without importing what trains them.
"""

import importlib

from trainers.davody import cells as davody
from trainers.davody import notes as davody_notes
from trainers.ermis import cells as ermis
from trainers.ermis import notes as ermis_notes
from trainers.klause import cells as klause
from trainers.klause import notes as klause_notes
from trainers.ours import (
    finetune_cells,
    fixed_cells,
    method_cells,
    release_cells,
    search_cells,
)
from trainers.report.tables import TableForm

_OURS = (finetune_cells, fixed_cells, method_cells, release_cells, search_cells)
_LISTS = (davody, klause, ermis, *_OURS)
_CELLS = {name: cells for paper in _LISTS for name, cells in paper.EXPERIMENTS.items()}
EXPERIMENTS = tuple(_CELLS)
# By kind of run; two private ones are trained by others: Algorithm 1 as printed, and a head that is
# solved for.
_RUNS = {
    "private": "trainers.runs.private:PrivateRun",
    "non_private": "trainers.runs.non_private:NonPrivateRun",
    "search": "trainers.searches.run:SearchRun",
    "as_printed": "trainers.ermis.as_printed:PrintedRun",
    "solved": "trainers.runs.least_squares:LeastSquaresRun",
}


def cells(experiment):
    """Returns the specs of all cells of an experiment, at seed 0, in the paper's order."""
    if experiment not in _CELLS:
        raise ValueError(f"Expected experiment to be one of {EXPERIMENTS}, got {experiment!r}.")
    return _CELLS[experiment]()


def networks(experiment):
    """Returns the networks of an experiment in the paper's order; none if it is not known."""
    if experiment not in _CELLS:
        return ()
    return tuple(dict.fromkeys(spec.network for spec in cells(experiment)))


def table_form(experiment):
    """Returns the `TableForm` of an experiment's table; the default one if it is not known."""
    return (klause.forms() | davody.forms() | fixed_cells.FORMS).get(experiment, TableForm())


def notes(experiment, records):
    """Returns what an experiment's records show of the paper's claims, Markdown; "" for nothing."""
    known = (davody_notes, ermis_notes, klause_notes, fixed_cells)
    of = {name: of for each in known for name, of in each.NOTES.items()}.get(experiment)
    return "\n\n".join(filter(None, of(records))) if of else ""


def sources(experiment):
    """Returns the experiments whose records an experiment's table is made of: mostly its own.

    Where it is another's, as the best runs of a table, nothing is trained for it twice.
    """
    if experiment not in _CELLS:
        return (experiment,)
    return tuple(dict.fromkeys(spec.experiment for spec in cells(experiment)))


def run_class(spec):
    """Returns the subclass of `Run` that trains a spec; loads TensorFlow."""
    kind = spec.kind
    if spec.kind == "private" and spec.variational.reading == "as_printed":
        kind = "as_printed"
    elif spec.kind == "private" and spec.finetuning.is_solved:
        kind = "solved"
    module, _, name = _RUNS[kind].partition(":")
    return getattr(importlib.import_module(module), name)


def run_cell(spec, **settings):
    """Trains a cell as its kind is trained, writes its record and returns the `RunResult`.

    For the settings see `trainers.runs.skeleton.run`.
    """
    from trainers.runs.skeleton import run

    return run(run_class(spec), spec, **settings)
