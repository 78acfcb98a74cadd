"""Network families by name: `tfdpnorm.models.build("lenet5", norm="public_batch")`."""

from tfdpnorm.models import lenet5 as _lenet5  # registers itself
from tfdpnorm.models.normalization import NORMS, normalization_layer
from tfdpnorm.models.registry import build, names, register

__all__ = ["NORMS", "build", "names", "normalization_layer", "register"]

del _lenet5
