"""Ermis & Cemgil (2017): cells, settings, published figures, and readings of its accounting."""

from tfdpnorm.experiments.ermis.cells import EXPERIMENTS

__all__ = ["EXPERIMENTS", "kinds"]


def kinds():
    """Returns the kinds of run that the specs are of; loads TensorFlow."""
    from tfdpnorm.experiments.runs.as_printed import PrintedRun
    from tfdpnorm.experiments.runs.variational import VariationalRun

    return VariationalRun, PrintedRun
