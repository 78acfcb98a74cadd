"""The losses that calls of layers added by `add_loss`.

Private parts of Keras 2: a layer's lists `_losses` (symbolic, from the construction of a functional
model) and `_eager_losses` (from calls), and `_clear_losses`. The public `layer.losses` mixes both
with the losses of weight regularizers, and nothing public removes a loss.
"""

import contextlib


def has_added_losses(layer):
    """Whether `layer` itself, not a layer inside it, called `add_loss`.

    Losses of weight regularizers do not count.
    """
    return bool(getattr(layer, "_losses", None) or getattr(layer, "_eager_losses", None))


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
