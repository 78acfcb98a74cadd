"""Whether the weights that a run begins with are fresh, as far as their initializers tell.

Biases, scales and offsets usually begin as constants, and training moves them.
"""

import numpy as np
from tensorflow import keras

from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.keras_compat.variables import is_variable

_CONSTANTS = tuple(getattr(keras.initializers, name) for name in ("Zeros", "Ones", "Constant"))
_ENDING = "_initializer"
_TOLERANCE = 2e-3  # what folding fresh moving averages into a scale changes


def first_not_fresh(model):
    """Names the first weight of a built model that is not what its initializer makes; or None.

    For example "the bias of 'dense'". Only weights that begin as constants are looked at: random
    ones cannot be told from trained ones.
    """
    for layer in (model, *sublayers(model)):
        for attribute, initializer in list(vars(layer).items()):
            if not attribute.endswith(_ENDING) or not isinstance(initializer, _CONSTANTS):
                continue
            name = attribute.removesuffix(_ENDING)
            variable = getattr(layer, name, None)
            if is_variable(variable) and not _is_fresh(layer, variable, initializer):
                return f"the {name} of {layer.name!r}"
    return None


def _is_fresh(layer, variable, initializer):
    value = np.asarray(variable)
    off = np.abs(value - np.asarray(initializer(value.shape), value.dtype))
    if getattr(layer, "unit_forget_bias", False):
        off = np.minimum(off, np.abs(value - 1))
    return bool(np.all(off <= _TOLERANCE))
