"""Klause et al. (2022): cells, settings and published figures."""

from tfdpnorm.experiments.klause.cells import EXPERIMENTS

# Their runs are those of `tfdpnorm.experiments.runs.private`, which another paper registers.
KINDS = ()

__all__ = ["EXPERIMENTS", "KINDS"]
