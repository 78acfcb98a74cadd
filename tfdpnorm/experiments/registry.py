"""All experiments by name: which cells they have, and how one is run."""

from tfdpnorm.experiments.davody import cells as davody
from tfdpnorm.experiments.runs import private as runner
from tfdpnorm.experiments.runs import weight_noise
from tfdpnorm.experiments.spec import WeightNoiseSpec

_CELLS = {
    "davody_table2": lambda: davody.weight_noise_cells("mnist"),
    "davody_table3": lambda: davody.weight_noise_cells("cifar10"),
    "davody_table4": lambda: davody.weight_noise_cells("ag_news"),
    "davody_table5": lambda: davody.private_cells("mnist"),
    "davody_table6": lambda: davody.private_cells("cifar10"),
    "davody_table7": lambda: davody.private_cells("ag_news"),
    "davody_figure1": davody.curve_cells,
    "davody_statistics": davody.statistics_cells,
}
EXPERIMENTS = tuple(_CELLS)


def cells(experiment):
    """Returns the specs of all cells of an experiment, at seed 0, in the paper's order.

    Raises:
        ValueError: for an unknown experiment.
    """
    if experiment not in _CELLS:
        raise ValueError(f"Expected experiment to be one of {EXPERIMENTS}, got {experiment!r}.")
    return _CELLS[experiment]()


def networks(experiment):
    """Returns the rows of an experiment in the paper's order; none if it is not listed here."""
    if experiment not in _CELLS:
        return ()
    return tuple(dict.fromkeys(spec.cell.split("/")[0] for spec in cells(experiment)))


def run_cell(spec, **options):
    """Trains a cell by the runner for its kind, and writes its record.

    Args:
        spec: `ExperimentSpec` or `WeightNoiseSpec`.
        **options: What both runners take: data_dir, output_dir, data, echo, run_dir, resume.

    Returns:
        `RunResult` or `WeightNoiseResult`; both have a `record`.
    """
    run = weight_noise.run if isinstance(spec, WeightNoiseSpec) else runner.run
    return run(spec, **options)
