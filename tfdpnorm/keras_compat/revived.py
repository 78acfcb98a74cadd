"""Layers that Keras makes up for a SavedModel whose classes it does not know.

Private part: the names `RevivedLayer` and `RevivedNetwork` of Keras' loader, bases of what it makes
up; they are compared by name, since their module moved between versions.
"""

from tfdpnorm.keras_compat.walk import sublayers

_BASES = ("RevivedLayer", "RevivedNetwork")


def revived_classes(model):
    """Sorted names of the classes that the loader made up in `model`, itself included."""
    found = [type(layer) for layer in (model, *sublayers(model))]
    return sorted({c.__name__ for c in found if any(b.__name__ in _BASES for b in c.__mro__)})
