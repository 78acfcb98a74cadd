"""What calls of layers added by `add_loss` and `add_metric`.

Private parts of Keras 2: a layer's lists `_losses` (symbolic, from the construction of a functional
model) and `_eager_losses` (from calls), `_clear_losses`, and its list `_metrics`. The public
`layer.losses` mixes both with the losses of weight regularizers, nothing public removes a loss, and
the public `layer.metrics` mixes added metrics with those of the attributes and of inner layers.
"""

import contextlib


def has_added_losses(layer):
    """Whether `layer` itself, not a layer inside it, called `add_loss`.

    Losses of weight regularizers do not count.
    """
    return bool(getattr(layer, "_losses", None) or getattr(layer, "_eager_losses", None))


def has_added_metrics(layer):
    """Whether `layer` itself, not a layer inside it, called `add_metric`.

    Metrics that are attributes of a layer do not count.
    """
    own = [x for name, value in vars(layer).items() if name != "_metrics" for x in _parts(value)]
    return any(all(m is not x for x in own) for m in getattr(layer, "_metrics", None) or ())


def _parts(value):
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, (list, tuple)) else [value]


def clear_losses(layer):
    """Removes the losses that calls of `layer`, and of all inside it, added."""
    layer._clear_losses()


@contextlib.contextmanager
def losses_put_back(layers):
    """Context after which the added losses of `layers` are those from before."""
    before = [(list(layer._losses), list(layer._eager_losses)) for layer in layers]
    try:
        yield
    finally:
        for layer, (symbolic, eager) in zip(layers, before, strict=True):
            layer._losses[:], layer._eager_losses[:] = symbolic, eager
