"""Attributes and methods of a layer, exchanged for the time of a call.

Keras has no public way to run a layer with another attribute: `Layer.__setattr__` of Keras 2 tracks
what is assigned, so that a tensor in the place of a weight would take the weight out of
`layer.weights`. These contexts write to the attributes of the instance directly.
"""

import contextlib
import inspect

_ABSENT = object()


@contextlib.contextmanager
def exchanged(owner, /, **attributes):
    """Context in which attributes of an object have other values.

    Afterwards, also after an exception, each attribute is what it was before; one that only the
    class had is deleted from the instance again. Contexts may be nested.

    Args:
        owner: A layer, or another object with a `__dict__`.
        **attributes: New values by name. The names of properties have no effect.
    """
    own = vars(owner)
    before = {name: own.get(name, _ABSENT) for name in attributes}
    own.update(attributes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _ABSENT:
                own.pop(name, None)
            else:
                own[name] = value


def exchanged_method(layer, name, function):
    """Context in which `layer.name(...)` runs `function`.

    On the instance: functional, nested and subclassed models all call it there.

    Args:
        layer: A Keras layer.
        name: Of its method, such as "call".
        function: Takes what the method takes. It gets the signature of the method, by which Keras
            decides whether to pass `training` and `mask`.
    """
    function.__signature__ = inspect.signature(getattr(layer, name))
    return exchanged(layer, **{name: function})
