"""The layers that a layer holds in its attributes, also in lists, tuples and dicts, at any depth.

Private parts of Keras 2: names of attributes that begin with `_self_` and `_inbound` hold what
Keras tracks, not what the layer's own code calls.
"""

from tensorflow import keras

_OF_KERAS = ("_self_", "_inbound", "_outbound", "_obj_")


def exchange_in_attributes(layer, exchange):
    """Puts other layers in the place of those that a layer holds in its attributes.

    Setting an attribute makes Keras track the new layer and forget the old one.

    Args:
        layer: The layer, or a subclassed model.
        exchange: Function from a layer to the one in its place; None leaves it.
    """
    for name, value in list(vars(layer).items()):
        if name.startswith(_OF_KERAS):
            continue
        other = _exchanged(value, exchange)
        if other is not value:
            setattr(layer, name, other)


def _exchanged(value, exchange):
    if isinstance(value, keras.layers.Layer):
        other = exchange(value)
        return value if other is None else other
    if isinstance(value, dict):
        made = {key: _exchanged(item, exchange) for key, item in value.items()}
        return made if any(made[key] is not value[key] for key in made) else value
    if isinstance(value, (list, tuple)):
        items = list(value)
        made = [_exchanged(item, exchange) for item in items]
        if all(one is other for one, other in zip(made, items, strict=True)):
            return value
        if hasattr(value, "_replace"):  # a named tuple, which Keras hands out wrapped
            return value._replace(**dict(zip(value._fields, made, strict=True)))
        return made if isinstance(value, list) else tuple(made)
    return value
