"""Every layer of a model, wherever it is nested."""


def sublayers(model):
    """Returns all layers inside `model` (not itself), nested models and wrappers included."""
    # The one walk that Keras 2 and 3 share and that also finds layers held in lists and dicts.
    return list(model._flatten_layers(include_self=False))
