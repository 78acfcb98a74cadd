"""Where a graph of layers adds the paths of a residual block.

Version-bound: see `tfdpnorm.keras_compat.nodes`.
"""

from tensorflow import keras

from tfdpnorm.keras_compat.nodes import nodes_before, number_of_calls


def residual_additions(model):
    """Returns the `Add` layers of a functional model that add a path to one that goes around it.

    One of the inputs is computed from another (the skip path is the identity), or both from the
    output of a layer before (it has a projection); the inputs of the model do not count there.

    Args:
        model: A functional model, or a Sequential one, which has none.

    Returns:
        List of pairs (layer, why it cannot be followed by a normalisation, or "").
    """
    before, found = {}, []
    for layer in model.layers:
        if type(layer) is not keras.layers.Add:
            continue
        for node in layer.inbound_nodes[:1]:
            sources = [tensor.node for tensor in node.keras_inputs]
            if _meet(sources, before):
                found.append((layer, _hindrance(layer, node)))
    return found


def _hindrance(layer, node):
    if number_of_calls(layer) > 1:
        return f"it adds in {number_of_calls(layer)} places, which would share one normalisation"
    shapes = [tuple(tensor.shape) for tensor in node.keras_inputs]
    if len(set(shapes)) > 1:
        return f"it adds paths of unequal shapes {shapes}"
    return ""


def _meet(sources, before):
    for i, one in enumerate(sources):
        for other in sources[i + 1 :]:
            first, second = nodes_before(one, before), nodes_before(other, before)
            if id(one) in second or id(other) in first:
                return True
            if any(not node.is_input for node in (first & second).values()):
                return True
    return False
