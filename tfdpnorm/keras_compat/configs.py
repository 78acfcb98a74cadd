"""Layers that hold others than their configurations make, so that no file of them can be loaded.

A file of a whole model holds configurations, from which Keras makes the layers again, and weights
for these. An exchange in the attributes of a layer changes no `get_config`.
"""

import weakref

from tfdpnorm.keras_compat.walk import sublayers

_UNLIKE_CONFIG = weakref.WeakSet()
HOW_TO_KEEP = (
    "Keep its weights by save_weights(path): to use them, build and convert the model anew by "
    "code, and call load_weights(path)"
)


def note_unlike_config(layer):
    """Notes that a layer holds others than its configuration makes, with other weights."""
    _UNLIKE_CONFIG.add(layer)


def layers_unlike_configs(model):
    """Returns the layers of a model, perhaps itself, that were noted."""
    return [x for x in (model, *sublayers(model)) if x in _UNLIKE_CONFIG]


def check_made_by_configs(model, done):
    """Refuses a model that Keras cannot make again from its configuration.

    Args:
        model: Model or layer.
        done: What was to be done with it: "saved", for one.

    Raises:
        ValueError: naming the first layer that holds others than its configuration makes.
    """
    for layer in layers_unlike_configs(model):
        raise ValueError(
            f"Expected a model to be {done} that its get_config() makes again, got "
            f"{type(layer).__name__} {layer.name!r}, inside of which a conversion has exchanged "
            f"layers. {HOW_TO_KEEP}."
        )
