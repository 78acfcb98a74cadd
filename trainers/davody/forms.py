"""How the tables of Davody et al. (2020) are made: with the paper's standard errors."""

from trainers.davody import cells, published
from trainers.report.tables import TableForm


def forms():
    """Returns how the tables sum up their runs, a dict of `TableForm`."""
    return {
        "davody_table2": TableForm(errors=_errors("mnist", published.TABLE2_ERRORS)),
        "davody_table3": TableForm(errors=_errors("cifar10", published.TABLE3_ERRORS)),
    }


def _errors(dataset, table):
    """The paper's standard errors by the name of a cell, a dict."""
    return {
        cells.weight_noise_spec(
            dataset, norm, stddev, model=model, norm_placement=placement
        ).cell: error
        for (model, norm, placement), row in table.items()
        for stddev, error in row.items()
    }
