"""Searches for hyperparameters whose epsilon is known: Keras Tuner's, accounted.

Nothing is imported before it is used: Keras Tuner loads TensorFlow.
"""

import importlib.util
from typing import TYPE_CHECKING

from tfdpnorm import lazy

if importlib.util.find_spec("keras_tuner") is None:
    raise ImportError("tfdpnorm.tuning needs Keras Tuner: pip install 'tfdpnorm[tuner]'")

_NAMES = {
    "PrivateBayesianOptimization": "tfdpnorm.tuning.searches",
    "PrivateHyperModel": "tfdpnorm.tuning.hypermodel",
    "PrivateRandomSearch": "tfdpnorm.tuning.searches",
}

__all__ = [*_NAMES]

if TYPE_CHECKING:
    from tfdpnorm.tuning.hypermodel import PrivateHyperModel as PrivateHyperModel
    from tfdpnorm.tuning.searches import PrivateBayesianOptimization as PrivateBayesianOptimization
    from tfdpnorm.tuning.searches import PrivateRandomSearch as PrivateRandomSearch
else:
    __getattr__, __dir__ = lazy.attributes(__name__, _NAMES)
