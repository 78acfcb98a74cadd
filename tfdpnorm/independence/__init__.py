"""Before training: whether each example has a gradient of its own (per-example independence)."""

from tfdpnorm.independence.inference import rows_apart
from tfdpnorm.independence.known_layers import (
    check_known_layers,
    check_no_adapted_layers,
    check_no_added_losses,
)
from tfdpnorm.independence.verification.book_keeping import prove_training
from tfdpnorm.independence.verification.claims import Proof

__all__ = [
    "Proof",
    "prove_training",
    "check_known_layers",
    "check_no_adapted_layers",
    "check_no_added_losses",
    "rows_apart",
]
