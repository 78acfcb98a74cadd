"""Which numbers a layer computes in, and which weights Keras casts to them.

Under a mixed precision policy Keras 2 wraps the weights of a layer in AutoCastVariable, which hands
out half-precision copies. Version-bound parts: the keyword by which `add_weight` switches that off
(`experimental_autocast` in Keras 2, `autocast` in Keras 3), the wrapper's private `_variable`, for
which there is no public accessor, and the form of policies in a layer's config.
"""

import contextlib
import inspect

from tensorflow import keras

from tfdpnorm.keras_compat.clone import cloned, copy_state
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


def without_mixed_precision(model):
    """Returns a copy of `model` in which every layer computes in the dtype of its weights.

    Args:
        model: A built Sequential or functional model; so are the models nested in it.
    """

    def wide(layer):
        config = layer.get_config()
        found = _without_policies(config)
        return None if found == config else layer.__class__.from_config(found)

    with made_under(model.variable_dtype):  # for what no config holds, such as nested models
        copy, exchanged = cloned(model, wide)
    for layer, other in exchanged:
        copy_state(layer, other)
    return copy


def _without_policies(config):
    """The config with the variables' dtype in place of each mixed policy, at any depth."""
    if isinstance(config, (list, tuple)):
        parts = [_without_policies(part) for part in config]
        return parts if isinstance(config, list) else tuple(parts)
    if not isinstance(config, dict):
        return config
    if config.get("class_name") == "Policy":
        return keras.mixed_precision.Policy(config["config"]["name"]).variable_dtype
    return {name: _without_policies(part) for name, part in config.items()}
