"""Ermis & Cemgil (2017): cells, settings, published figures, and readings of its accounting."""

from trainers.ermis.cells import EXPERIMENTS

__all__ = ["EXPERIMENTS", "kinds"]


def kinds():
    """Returns the kinds of run that the specs are of; loads TensorFlow."""
    from trainers.runs.as_printed import PrintedRun
    from trainers.runs.variational import VariationalRun

    return VariationalRun, PrintedRun
