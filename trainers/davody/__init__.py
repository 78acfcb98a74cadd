"""Davody et al. (2020): cells, settings and published figures."""

from trainers.davody.cells import EXPERIMENTS

__all__ = ["EXPERIMENTS", "kinds"]


def kinds():
    """Returns the kinds of run that the specs are of; loads TensorFlow."""
    from trainers.runs.private import PrivateRun
    from trainers.runs.weight_noise import WeightNoiseRun

    return PrivateRun, WeightNoiseRun
