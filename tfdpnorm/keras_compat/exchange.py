"""Tensors in the places of a layer's variables, for the time of a call."""

import contextlib

import tensorflow as tf

# Where Keras and TensorFlow keep account of the variables: never replaced, and no place of use.
_ACCOUNTS = {"_trainable_weights", "_non_trainable_weights"}


@contextlib.contextmanager
def replaced(layer, variables, draws):
    """Context in which attributes of `layer`, and of all inside it, hold draws, not variables.

    Written past Keras' `__setattr__`, whose account of the variables stays as it is.

    Args:
        layer: The layer.
        variables: The variables to replace.
        draws: Dict from the id of a variable to the tensor in its place.
    """
    missing = {id(v): v for v in variables}
    before = []
    try:
        for module in (layer, *layer.submodules):
            attributes = vars(module)

            def draw(variable, module=module):
                missing.pop(id(variable), None)
                return _as_read_by(module, variable, draws[id(variable)])

            for name, value in list(attributes.items()):
                if name in _ACCOUNTS or name.startswith("_self_"):
                    continue
                replaced = _exchange(value, draws, draw, set())
                if replaced is not value:
                    before.append((attributes, name, value))
                    attributes[name] = replaced
        if missing:
            raise ValueError(
                f"Expected layer {layer.name!r} to hold its weights as attributes, got none for "
                f"{[v.name for v in missing.values()]}. Set them as self.kernel or the like, or in "
                "a list, tuple or dict."
            )
        yield
    finally:
        for attributes, name, value in before:
            attributes[name] = value


def _as_read_by(module, variable, draw):
    """`draw` in the dtype in which `module` reads `variable` during its call."""
    if not hasattr(variable, "_variable"):  # Keras does not cast this one
        return draw
    dtype = tf.as_dtype(getattr(module, "compute_dtype", None) or draw.dtype)
    return tf.cast(draw, dtype) if dtype.is_floating else draw


def _exchange(value, draws, draw, seen):
    """`value` with each variable of `draws` replaced; `value` itself where it holds none."""
    if id(value) in draws:
        return draw(value)
    if not isinstance(value, (list, tuple, dict)) or id(value) in seen:
        return value
    seen = seen | {id(value)}
    items = list(value.values()) if isinstance(value, dict) else list(value)
    replaced = [_exchange(x, draws, draw, seen) for x in items]
    if all(x is y for x, y in zip(items, replaced, strict=True)):
        return value
    if isinstance(value, dict):
        return dict(zip(value, replaced, strict=True))
    if isinstance(value, list):
        return replaced
    return type(value)(*replaced) if hasattr(value, "_fields") else tuple(replaced)
