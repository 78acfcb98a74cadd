"""Which variables the operations of a graph change, in the functions that they call, too."""

from tfdpnorm.independence.verification.walk import may_change_state
from tfdpnorm.keras_compat.functions import handles_of, is_stateful, leaf_operations
from tfdpnorm.keras_compat.graphs import current_graph


def changed_by(operations):
    """Returns pairs of an operation and the handle of a variable that it changes, as in `Leaf`."""
    leaves = leaf_operations(operations)
    return [
        (leaf.op, handle)
        for leaf in leaves
        if may_change_state(leaf.op.type, is_stateful(leaf.op))
        for handle in leaf.handles
    ]


def readers_before(handles, count):
    """Returns the operations that use variables, by handles, of the first `count` of the graph."""
    wanted = {id(handle) for handle in handles}
    early = current_graph().get_operations()[:count]
    return [op for op in early if any(id(handle) in wanted for handle in handles_of(op))]
