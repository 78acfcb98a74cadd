"""Weights that were loaded before a model was built, and wait in it.

Private part: `_self_unconditional_deferred_dependencies` of TensorFlow's trackables, since nothing
public says that a restoration waits.
"""

from tfdpnorm.keras_compat.walk import sublayers


def has_deferred_weights(model):
    """Whether `load_weights` of a TensorFlow checkpoint has left weights for when it is built."""
    layers = (model, *sublayers(model))
    return any(getattr(x, "_self_unconditional_deferred_dependencies", None) for x in layers)
