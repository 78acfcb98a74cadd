"""Klause et al. (2022): cells, settings and published figures."""

from tfdpnorm.experiments.klause.cells import EXPERIMENTS, forms

__all__ = ["EXPERIMENTS", "forms", "kinds"]


def kinds():
    """Returns the kinds of run that the specs are of; loads TensorFlow."""
    from tfdpnorm.experiments.runs.non_private import NonPrivateRun
    from tfdpnorm.experiments.runs.private import PrivateRun

    return PrivateRun, NonPrivateRun
