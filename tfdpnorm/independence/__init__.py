"""Before training: whether each example has a gradient of its own (per-example independence).

Importing this package, or `verification` in it, loads no TensorFlow.
"""

from typing import TYPE_CHECKING

from tfdpnorm import lazy

_NAMES = {
    "Proof": "tfdpnorm.independence.verification.claims",
    "check_known_layers": "tfdpnorm.independence.known_layers",
    "check_no_adapted_layers": "tfdpnorm.independence.known_layers",
    "check_no_added_losses": "tfdpnorm.independence.known_layers",
    "prove_training": "tfdpnorm.independence.book_keeping",
    "rows_apart": "tfdpnorm.independence.outputs",
    "verify": "tfdpnorm.independence.verification.claims",
}

__all__ = [*_NAMES]

if TYPE_CHECKING:
    from tfdpnorm.independence.book_keeping import prove_training as prove_training
    from tfdpnorm.independence.known_layers import check_known_layers as check_known_layers
    from tfdpnorm.independence.known_layers import (
        check_no_adapted_layers as check_no_adapted_layers,
    )
    from tfdpnorm.independence.known_layers import check_no_added_losses as check_no_added_losses
    from tfdpnorm.independence.outputs import rows_apart as rows_apart
    from tfdpnorm.independence.verification.claims import Proof as Proof
    from tfdpnorm.independence.verification.claims import verify as verify
else:
    __getattr__, __dir__ = lazy.attributes(__name__, _NAMES)
