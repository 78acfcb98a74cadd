"""A graph of layers, cut in two at one tensor.

Version-bound: see `tfdpnorm.keras_compat.nodes`.
"""

from tensorflow import keras

from tfdpnorm.keras_compat.models import is_functional
from tfdpnorm.keras_compat.nodes import nodes_before
from tfdpnorm.keras_compat.walk import own_weights, sublayers


def cut_in_two(model, is_above):
    """Cuts a model where as much as possible lies below the cut, seen from the outputs.

    The two share their layers with the model: `above(below(x))` is `model(x)`. A model that is a
    layer of this one is cut too, where the cut lies in it. A layer with weights is on one side.

    Args:
        model: A Sequential or functional model with one input and one output, built.
        is_above: Function from a layer to whether it must lie above the cut.

    Returns:
        Pair of models (below, above); None if no single tensor but the input has all these layers
        above it.
    """
    end = model.output.node
    known = {}
    nodes = nodes_before(end, known)
    above = {id(n) for n in nodes.values() if any(map(is_above, (n.layer, *sublayers(n.layer))))}
    places = [n for n in nodes.values() if _can_be_cut_at(n, nodes, above, known)]
    place = max(places, key=lambda n: len(nodes_before(n, known)))
    further = _within_the_next_model(place, nodes, end, is_above)
    if further is not None:
        return _joined(model, place, *further)
    if place.is_input or place is end:
        return None
    return (
        keras.Model(model.input, place.outputs, name=f"{model.name}_below"),
        keras.Model(place.outputs, model.output, name=f"{model.name}_above"),
    )


def _can_be_cut_at(place, nodes, above, known):
    """Whether all that is not computed before a node is computed from its one output alone."""
    below = nodes_before(place, known)
    if isinstance(place.outputs, (list, tuple, dict)) or not above.isdisjoint(below):
        return False
    rest = [node for key, node in nodes.items() if key not in below]
    from_elsewhere = any(
        id(parent) in below and parent is not place for node in rest for parent in node.parent_nodes
    )
    shared = {id(n.layer) for n in below.values()} & {id(n.layer) for n in rest if _has_weights(n)}
    return not from_elsewhere and not shared


def _has_weights(node):
    return any(own_weights(layer) for layer in (node.layer, *sublayers(node.layer)))


def _within_the_next_model(place, nodes, end, is_above):
    """Triple (node, below, above) of the model that alone comes after a cut, cut too, or None."""
    after = [node for node in nodes.values() if any(p is place for p in node.parent_nodes)]
    if len(after) != 1:
        return None
    (node,) = after
    inner = node.layer
    if not is_functional(inner) or len(inner.inputs) != 1 or len(inner.outputs) != 1:
        return None
    cut = cut_in_two(inner, is_above)
    return None if cut is None else (node, *cut)


def _joined(model, place, node, below, above):
    """The two halves of a model, cut inside the model that a node calls."""
    between = keras.Input(above.input.shape[1:], dtype=above.input.dtype)
    options = {k: v for k, v in node.call_kwargs.items() if isinstance(v, bool)}
    x = above(between, **options)
    if node is not model.output.node:
        x = keras.Model(node.outputs, model.output, name=f"{model.name}_end")(x)
    return (
        keras.Model(model.input, below(place.outputs), name=f"{model.name}_below"),
        keras.Model(between, x, name=f"{model.name}_above"),
    )
