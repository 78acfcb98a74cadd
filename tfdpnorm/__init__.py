"""tfdpnorm: deep networks with normalisation layers, trained under differential privacy.

The names below are imported when they are first used, so that `tfdpnorm-epsilon` and
`import tfdpnorm.privacy` answer without loading TensorFlow. Saved models that hold layers of this
library can be loaded all the same.
"""

import importlib

from tfdpnorm._version import __version__
from tfdpnorm.keras_compat.importing import choose_keras, register_when_keras_is_imported

choose_keras()

_NAMES = {
    "Clipping": "tfdpnorm.gradients",
    "FrozenBatchNormalization": "tfdpnorm.layers",
    "PrivacyBudget": "tfdpnorm.privacy",
    "PrivateModel": "tfdpnorm.training",
    "PrivateValidation": "tfdpnorm.training",
    "PublicBatch": "tfdpnorm.training",
    "PublicBatchNormalization": "tfdpnorm.layers",
    "PublicCentering": "tfdpnorm.layers",
    "RunDir": "tfdpnorm.training",
    "ScaleNorm": "tfdpnorm.layers",
    "Views": "tfdpnorm.training",
    "WeightAverage": "tfdpnorm.training",
    "convert_model": "tfdpnorm.convert",
    "fold_public_statistics": "tfdpnorm.convert",
    "make_plan": "tfdpnorm.privacy",
    "make_private": "tfdpnorm.training",
    "private_least_squares": "tfdpnorm.least_squares",
    "suggest": "tfdpnorm.training",
    "suggested_optimizer": "tfdpnorm.training",
}
_PACKAGES = (
    "analysis",
    "audit",
    "convert",
    "data",
    "gradients",
    "independence",
    "layers",
    "least_squares",
    "models",
    "noise",
    "privacy",
    "training",
    "tuning",
)

__all__ = ["__version__", *_NAMES, *_PACKAGES]


def __getattr__(name):
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"tfdpnorm.{name}")
    raise AttributeError(f"module 'tfdpnorm' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)


register_when_keras_is_imported()
