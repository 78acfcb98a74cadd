"""Searches for hyperparameters whose epsilon is known: Keras Tuner's, accounted.

Nothing is imported before it is used: Keras Tuner loads TensorFlow.
"""

import importlib

_NAMES = {
    "ComposedSearch": "tfdpnorm.tuning.searches",
    "PrivateHyperModel": "tfdpnorm.tuning.hypermodel",
    "PrivateRandomSearch": "tfdpnorm.tuning.searches",
}

__all__ = [*_NAMES]


def __getattr__(name):
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'tfdpnorm.tuning' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
