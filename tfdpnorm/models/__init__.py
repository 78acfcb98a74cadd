"""Network families by name: `tfdpnorm.models.build("lenet5", norm="public_batch")`."""

import tfdpnorm.models.families  # noqa: F401, imported to register them
from tfdpnorm.models.normalization import NORMS, PLACEMENTS, check_groups, normalization_layer
from tfdpnorm.models.registry import PARTS, build, names, options, register

__all__ = [
    "NORMS",
    "PARTS",
    "PLACEMENTS",
    "build",
    "check_groups",
    "names",
    "normalization_layer",
    "options",
    "register",
]
