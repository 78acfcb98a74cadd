"""The nodes of graphs of layers.

Version-bound: Keras 2 has a node for each call of a layer in a graph (`inbound_nodes` of a layer,
`node` of a Keras tensor), which knows the nodes before it and the arguments (`parent_nodes`,
`keras_inputs`, `call_kwargs`).
"""


def number_of_calls(layer):
    """Returns how many times a layer was called to build graphs of layers."""
    return len(layer.inbound_nodes)


def is_always_called_in_training(layer):
    """Returns whether graphs of layers call a layer with `training=True`, in inference too."""
    return any(node.call_kwargs.get("training") is True for node in layer.inbound_nodes)


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


class _Nodes(dict):
    """Nodes by their id."""

    def __and__(self, other):
        return _Nodes((key, node) for key, node in self.items() if key in other)
