"""Klause et al. (2022): cells, settings and published figures."""

from tfdpnorm.experiments.klause.cells import EXPERIMENTS, FORMS
from tfdpnorm.experiments.runs.non_private import NonPrivateRun
from tfdpnorm.experiments.runs.private import PrivateRun

KINDS = (PrivateRun, NonPrivateRun)

__all__ = ["EXPERIMENTS", "FORMS", "KINDS"]
