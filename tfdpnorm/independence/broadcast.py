"""Outputs that read no example and are broadcast to all of them, as embeddings of positions are.

Lemma. A tensor u of shape [T, ...], or [1, T, ...], goes through element-wise operations only,
alone or with others that leave its first axis where it is, until each path meets a tensor of shape
[R, T, ...] whose axis of R entries lies before its own, or on its own axis of size 1, or is
broadcast to such a shape. Then [R, T, ...], R copies of u, in its place give the same values from
there on: that is what broadcasting means.

Python sees another shape, and may make constants or other operations of it. So the pass with the
copies has to have the operations and constants of the pass without.
"""

from tfdpnorm.independence.verification.rules.elementwise import OPERATIONS


def operations_until(tensor):
    """Returns the names of the operations of a graph up to that of its `tensor`, a set."""
    names = set()
    for op in tensor.graph.get_operations():
        names.add(op.name)
        if op is tensor.op:
            break
    return names


def computed_alike(kept, others, layers):
    """Whether two `BookKept` have the same operations and constants, but for those of `layers`."""
    return _operations(kept, layers) == _operations(others, layers)


def _operations(kept, layers):
    """The content of a pass, a list: types of operations, and the values of constants."""
    own = {id(layer) for layer in layers}
    left_out = {i for tap in kept.calls if id(tap.layer) in own for i in range(*tap.operations)}
    operations = enumerate(kept.losses.graph.get_operations())
    forward = operations_until(kept.losses)
    return [
        (op.type, op.get_attr("value").SerializeToString() if op.type == "Const" else None)
        for i, op in operations
        if i not in left_out and op.name in forward
    ]


def is_broadcast(tensor, rows, forward):
    """Whether `rows` copies of a tensor, along a first axis of their own, may take its place.

    `forward` has the names of the operations of the forward pass. What others do with the tensor
    follows from them.
    """
    shape = _shape(tensor)
    if not shape or None in shape:
        return False
    whole = len(shape) if shape[0] == 1 else len(shape) + 1  # rank with the axis of the copies
    waiting, seen = [tensor], set()
    while waiting:
        tensor = waiting.pop()
        for op in tensor.consumers():
            if op.name not in forward or op.name in seen:
                continue
            seen.add(op.name)
            shapes = [_shape(t) for t in (*op.inputs, *op.outputs)]
            known = op.type in OPERATIONS or (op.type == "BroadcastTo" and tensor is op.inputs[0])
            if not known or None in shapes or len(op.outputs) != 1:
                return False
            result = shapes.pop()
            if len(result) > whole or None in result:
                return False
            if len(result) < whole or result[0] == 1:
                waiting.append(op.outputs[0])
            elif result[0] != rows:
                return False
    return True


def _shape(tensor):
    """Static shape of a tensor, a tuple with None for unknown sizes; None without rank."""
    return None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
