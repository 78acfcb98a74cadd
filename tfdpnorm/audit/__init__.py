"""Audits of what the guarantee presumes."""

from tfdpnorm.audit.row_independence.finding import Finding, Report
from tfdpnorm.audit.row_independence.known_layers import check_known_layers, check_no_added_losses
from tfdpnorm.audit.row_independence.predicting import rows_apart
from tfdpnorm.audit.row_independence.proof.proof import Proof
from tfdpnorm.audit.row_independence.proof.training import prove_training
from tfdpnorm.audit.row_independence.subjects import (
    model_rows,
    probe_augmentation,
    probe_loss,
    probe_model,
)
from tfdpnorm.audit.row_independence.validate import findings, refuse, validate

__all__ = [
    "Proof",
    "prove_training",
    "Finding",
    "Report",
    "check_known_layers",
    "check_no_added_losses",
    "findings",
    "model_rows",
    "probe_augmentation",
    "probe_loss",
    "probe_model",
    "refuse",
    "rows_apart",
    "validate",
]
