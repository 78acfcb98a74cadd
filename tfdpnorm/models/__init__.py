"""Network families by name: `tfdpnorm.models.build("lenet5", norm="public_batch")`."""

from tfdpnorm.models import bilstm, lenet5, mlp, resnet9, transformer, wide_resnet
from tfdpnorm.models.normalization import NORMS, normalization_layer
from tfdpnorm.models.registry import build, names, register

__all__ = ["NORMS", "build", "names", "normalization_layer", "register"]

del bilstm, lenet5, mlp, resnet9, transformer, wide_resnet  # imported to register themselves
