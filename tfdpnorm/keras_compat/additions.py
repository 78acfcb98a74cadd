"""Where a graph of layers adds the paths of a residual block.

Version-bound: the nodes of Keras 2, one for each call of a layer in a graph (`inbound_nodes`,
`parent_nodes`, `keras_inputs`, and `node` of a Keras tensor).
"""

from tensorflow import keras


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


def number_of_calls(layer):
    """Returns how many times a layer was called to build graphs of layers."""
    return len(layer.inbound_nodes)


def nodes_before(node, known):
    """Returns the nodes that a node is computed from, itself included.

    Without recursion, which long graphs would exhaust.

    Args:
        node: Node of a graph of layers.
        known: Dict that keeps what was found, for the next call; empty at first.

    Returns:
        Dict from ids to nodes.
    """
    waiting = [node]
    while waiting:
        last = waiting[-1]
        missing = [n for n in last.parent_nodes if id(n) not in known]
        if id(last) in known:
            waiting.pop()
        elif missing:
            waiting += missing
        else:
            own = _Nodes({id(last): last})
            for parent in last.parent_nodes:
                own.update(known[id(parent)])
            known[id(last)] = own
            waiting.pop()
    return known[id(node)]


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


class _Nodes(dict):
    """Nodes by their id."""

    def __and__(self, other):
        return _Nodes((key, node) for key, node in self.items() if key in other)
