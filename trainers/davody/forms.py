"""How the tables of Davody et al. (2020) are made: with the paper's errors, and notes below."""

from trainers.davody import cells, claims, published, slowdown
from trainers.report.tables import TableForm


def forms():
    """Returns how the tables sum up their runs, a dict of `TableForm`."""
    return {
        "davody_table2": TableForm(
            errors=_errors("mnist", published.TABLE2_ERRORS), notes=claims.of_table2
        ),
        "davody_table3": TableForm(
            errors=_errors("cifar10", published.TABLE3_ERRORS), notes=claims.of_table3
        ),
        "davody_table4": TableForm(notes=claims.of_table4),
        "davody_table5": TableForm(notes=claims.of_table5),
        "davody_table6": TableForm(notes=claims.of_table6),
        "davody_table7": TableForm(notes=claims.of_table7),
        "davody_figure1": TableForm(notes=slowdown.notes),
        "davody_statistics": TableForm(notes=claims.of_statistics),
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
