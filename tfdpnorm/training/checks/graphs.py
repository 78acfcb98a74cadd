"""Models that no graph can hold: single gradients and proofs are computed in graphs."""

from tfdpnorm.keras_compat.models import sublayers


def check_no_dynamic_layers(model):
    """Refuses layers of whose `call` their author says that it runs eagerly only.

    Args:
        model: A Keras model.

    Raises:
        ValueError: naming the first of them.
    """
    for layer in reversed((model, *sublayers(model))):  # what holds a dynamic layer is, too
        if layer.dynamic:
            raise ValueError(
                f"Expected layers that run in a graph, got {type(layer).__name__} {layer.name!r} "
                "with dynamic=True. If its call() holds operations of TensorFlow alone, leave "
                "dynamic=True out; otherwise write it in them."
            )
