"""Davody et al. (2020): cells, settings and published figures."""

from tfdpnorm.experiments.davody.cells import EXPERIMENTS
from tfdpnorm.experiments.runs.private import PrivateRun
from tfdpnorm.experiments.runs.weight_noise import WeightNoiseRun

KINDS = (PrivateRun, WeightNoiseRun)

__all__ = ["EXPERIMENTS", "KINDS"]
