"""Which numbers a layer computes in, and which weights Keras casts to them.

Under a mixed precision policy Keras 2 wraps the weights of a layer in AutoCastVariable, which hands
out half-precision copies. Version-bound parts: the keyword by which `add_weight` switches that off
(`experimental_autocast` in Keras 2, `autocast` in Keras 3), and the wrapper's private `_variable`,
for which there is no public accessor.
"""

import contextlib
import inspect

from tensorflow import keras

from tfdpnorm.keras_compat.devices import has_gpu
from tfdpnorm.keras_compat.walk import sublayers


def no_autocast(add_weight):
    """Returns the keyword argument of `add_weight` that keeps a weight out of autocasting."""
    if "autocast" in inspect.signature(add_weight).parameters:
        return {"autocast": False}
    return {"experimental_autocast": False}


def is_cast_by_keras(variable):
    """Whether Keras hands out `variable` in the compute dtype of the layer that reads it."""
    return hasattr(variable, "_variable")


def as_stored(variable):
    """Returns the variable behind `variable`, in the dtype in which it is kept."""
    return getattr(variable, "_variable", variable)


def computes_in_half(model):
    """Whether any layer inside `model` computes in float16."""
    return any(layer.compute_dtype == "float16" for layer in sublayers(model))


@contextlib.contextmanager
def made_under(policy):
    """While this lasts, layers are made under a policy, such as "mixed_bfloat16"."""
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(policy)
    try:
        yield
    finally:
        keras.mixed_precision.set_global_policy(before)


def half_precision():
    """The policy of half precision that the machine is quick with; processors have no float16."""
    return "mixed_float16" if has_gpu() else "mixed_bfloat16"
