"""Network families by name: `tfdpnorm.models.build("lenet5", norm="public_batch")`."""

from tfdpnorm.models import (
    bilstm,
    lenet5,
    lenet_300_100,
    mlp,
    random_features,
    resnet9,
    resnet18,
    resnet50,
    small_cnn,
    tf_tutorial,
    transformer,
    vgg,
    wide_resnet,
)
from tfdpnorm.models.normalization import NORMS, PLACEMENTS, check_groups, normalization_layer
from tfdpnorm.models.parts import PARTS
from tfdpnorm.models.registry import build, names, options, register

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

# Imported to register themselves.
del bilstm, lenet5, lenet_300_100, mlp, random_features, resnet9, resnet18, resnet50, small_cnn
del tf_tutorial, transformer, vgg, wide_resnet
