"""Operations that write into the memory of their input, as within `tf.nn.ctc_loss`.

Lemma. A verdict is on the value that an operation gives. Where another operation writes into that
memory, later readers of it get another value: nothing is known of any tensor of the graph. If
no operation of it writes state either, its state is what it was before.
"""

from tfdpnorm.independence.verification.verdicts import Mixed
from tfdpnorm.independence.verification.walk import may_change_state
from tfdpnorm.plain_graph import UnknownGraph

_IN_PLACE = ("InplaceAdd", "InplaceSub", "InplaceUpdate", "_ParallelConcatUpdate")
# Reading a variable, drawing, and making a tensor have or move state, too, but keep no tensor.
_KEEPS_NONE = ("Empty", "Assert", "Random", "Rng", "Stateful", "Multinomial", "TruncatedNormal")
_WHY = "writes in place, into memory that other operations may read"


def in_place(graph):
    """Finds operations of a graph that write into the memory of their input.

    Returns the `Mixed` of the first one, or None, and whether state may keep a tensor that was
    written so.
    """
    try:
        leaves = [op for op in graph.inside() if not op.functions]
    except UnknownGraph:
        return None, False  # which the walk finds as well
    found = next((op for op in leaves if op.type in _IN_PLACE), None)
    if found is None:
        return None, False
    keeps = any(
        may_change_state(op.type, op.is_stateful) and not op.type.startswith(_KEEPS_NONE)
        for op in leaves
    )
    return Mixed(found.name, found.type, found.name.rpartition("/")[0], _WHY), keeps
