"""All experiments by name: their cells, and how one is run.

A paper is a folder, which exports `EXPERIMENTS`, a dict from the name of each experiment to the
function that returns its specs, and `kinds`, a function that returns the kinds of run that these
specs are of. It may have `forms`, a function that returns a dict from the names of experiments to
the `TableForm` of their tables. What trains a run is imported where it is asked for: cells are
listed without it.
"""

import functools

from trainers import davody, ermis, klause, ours
from trainers.knobs import Part
from trainers.table_form import TableForm

_PAPERS = (davody, klause, ermis, ours)

_CELLS = {name: cells for paper in _PAPERS for name, cells in paper.EXPERIMENTS.items()}
EXPERIMENTS = tuple(_CELLS)


@functools.cache
def _forms():
    of_papers = [paper.forms() for paper in _PAPERS if hasattr(paper, "forms")]
    return {name: form for forms in of_papers for name, form in forms.items()}


@functools.cache
def _kinds():
    return {kind.spec_class.kind: kind for paper in _PAPERS for kind in paper.kinds()}


def cells(experiment):
    """Returns the specs of all cells of an experiment, at seed 0, in the paper's order.

    Raises:
        ValueError: for an unknown experiment.
    """
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
    return _forms().get(experiment, TableForm())


def sources(experiment):
    """Returns the experiments whose records an experiment's table is made of: mostly its own.

    Where it is another's, as the best runs of a table, nothing is trained for it twice.
    """
    if experiment not in _CELLS:
        return (experiment,)
    return tuple(dict.fromkeys(spec.experiment for spec in cells(experiment)))


def spec_class(kind):
    """Returns the class of the specs of a kind of run; `Part`, without fields, if it is unknown."""
    return _kinds()[kind].spec_class if kind in _kinds() else Part


def run_class(kind):
    """Returns the subclass of `Run` of a kind of run; loads TensorFlow."""
    return _kinds()[kind]


def run_cell(spec, **settings):
    """Trains a cell as its kind is trained, and writes its record.

    Args:
        spec: Spec of a kind of run that a paper has.
        **settings: See `trainers.runs.skeleton.run`.

    Returns:
        `RunResult`.
    """
    from trainers.runs.skeleton import run

    return run(run_class(spec.kind), spec, **settings)
