"""Klause et al. (2022): cells, settings and published figures."""

from trainers.klause.cells import EXPERIMENTS, forms

__all__ = ["EXPERIMENTS", "forms", "kinds"]


def kinds():
    """Returns the kinds of run that the specs are of; loads TensorFlow."""
    from trainers.runs.non_private import NonPrivateRun
    from trainers.runs.private import PrivateRun

    return PrivateRun, NonPrivateRun
