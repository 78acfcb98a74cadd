"""Davody et al. (2020): cells, settings and published figures."""

from tfdpnorm.experiments.davody.cells import EXPERIMENTS

__all__ = ["EXPERIMENTS", "kinds"]


def kinds():
    """Returns the kinds of run that the specs are of; loads TensorFlow."""
    from tfdpnorm.experiments.runs.private import PrivateRun
    from tfdpnorm.experiments.runs.weight_noise import WeightNoiseRun

    return PrivateRun, WeightNoiseRun
