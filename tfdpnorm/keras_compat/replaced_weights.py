"""Tensors in the places of a layer's variables, for the time of a call.

Keras has no public way to run a layer with other weights: `tf.keras` 2.15 has no stateless call.
Private parts: the lists `_trainable_weights` and `_non_trainable_weights` of a layer, and the
`_variable` of an AutoCastVariable.
"""

import contextlib

import tensorflow as tf

from tfdpnorm.keras_compat.exchange import exchanged
from tfdpnorm.keras_compat.precision import is_cast_by_keras
from tfdpnorm.keras_compat.walk import modules_inside

# Where Keras and TensorFlow track the variables: never replaced, and no layer reads them there.
_TRACKING = {"_trainable_weights", "_non_trainable_weights"}


@contextlib.contextmanager
def replaced(layer, variables, draws):
    """Context in which attributes of `layer`, and of all inside it, hold draws, not variables.

    The lists in which Keras tracks the variables stay as they are.

    Args:
        layer: The layer.
        variables: The variables to replace.
        draws: Dict from the id of a variable to the tensor in its place.

    Raises:
        ValueError: naming variables that are in no attribute.
    """
    missing = {id(v): v for v in variables}
    with contextlib.ExitStack() as stack:
        for module in (layer, *modules_inside(layer)):

            def draw(variable, module=module):
                missing.pop(id(variable), None)
                return _as_read_by(module, variable, draws[id(variable)])

            changes = {}
            for name, value in vars(module).items():
                if name in _TRACKING or name.startswith("_self_"):
                    continue
                new = _with_draws(value, draws, draw, set())
                if new is not value:
                    changes[name] = new
            stack.enter_context(exchanged(module, **changes))
        if missing:
            raise ValueError(
                f"Expected layer {layer.name!r} to hold its weights as attributes, got none for "
                f"{[v.name for v in missing.values()]}. Set them as self.kernel or the like, or in "
                "a list, tuple or dict."
            )
        yield


def _as_read_by(module, variable, draw):
    """`draw` in the dtype in which `module` reads `variable` during its call."""
    if not is_cast_by_keras(variable):
        return draw
    dtype = tf.as_dtype(getattr(module, "compute_dtype", None) or draw.dtype)
    return tf.cast(draw, dtype) if dtype.is_floating else draw


def _with_draws(value, draws, draw, seen):
    """`value` with each variable of `draws` replaced; `value` itself where it holds none."""
    if id(value) in draws:
        return draw(value)
    if not isinstance(value, (list, tuple, dict)) or id(value) in seen:
        return value
    seen = seen | {id(value)}
    items = list(value.values()) if isinstance(value, dict) else list(value)
    replaced = [_with_draws(x, draws, draw, seen) for x in items]
    if all(x is y for x, y in zip(items, replaced, strict=True)):
        return value
    if isinstance(value, dict):
        return dict(zip(value, replaced, strict=True))
    if isinstance(value, list):
        return replaced
    return type(value)(*replaced) if hasattr(value, "_fields") else tuple(replaced)
