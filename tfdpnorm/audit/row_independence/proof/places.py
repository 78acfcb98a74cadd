"""What free tensors may stand beside rows: those that are the same at the place of each example.

Lemma. Let a rule say that an operation gives rows if an input is of rows. By that rule's own lemma,
the result is permuted with the examples if that input is, and the other inputs lie beside it. So
for an input that is free, and does not change if it is permuted like rows of some layout, neither
does the result; and for one that is permuted if draws are (see `draws`), so is the result. What is
known of free tensors is handed on in this way by the very rules that rows are; it begins with
tensors that repeat their entries: filled, broadcast and tiled ones, constants, and draws.
"""

from dataclasses import replace

import numpy as np
import tensorflow as tf

from tfdpnorm.audit.row_independence.proof.draws import for_all, is_draw, layouts_of, seed_of
from tfdpnorm.audit.row_independence.proof.registry import Node, holds_values, rule_of
from tfdpnorm.audit.row_independence.proof.rules.elementwise import OPERATIONS
from tfdpnorm.audit.row_independence.proof.verdicts import EVEN, FREE, Free, ListOf, Rows, fits
from tfdpnorm.keras_compat.functions import called_functions

_LARGEST = 1_000_000  # entries of a constant that are looked at
_EVEN = ("EmptyTensorList", "Fill", "OnesLike", "TensorListReserve", "ZerosLike")
# Of even inputs with these numbers, or of all, they make even ones.
_KEEP_EVEN = {
    **dict.fromkeys(OPERATIONS),
    **dict.fromkeys(("BroadcastTo", "ExpandDims", "Reshape", "Slice", "Squeeze"), (0,)),
    **dict.fromkeys(("StridedSlice", "Tile", "Transpose", "Unpack", "Gather", "GatherV2"), (0,)),
    **dict.fromkeys(("GatherNd", "SplitV", "ReverseV2", "TensorListResize"), (0,)),
    **dict.fromkeys(("Max", "Mean", "Min", "Prod", "Sum", "All", "Any"), (0,)),
    **dict.fromkeys(("TensorListFromTensor", "TensorListGetItem", "TensorListPopBack"), (0,)),
    **dict.fromkeys(("TensorListPushBack",), (0, 1)),
    **dict.fromkeys(("TensorListSetItem",), (0, 2)),
    "Split": (1,),
}
_HANDED_ON = ("EnsureShape", "Identity", "IdentityN", "PreventGradient", "StopGradient")
# Stateful by name, but they only read.
_READING = ("LookupTableFindV2", "ResourceGather", "ResourceGatherNd")


def known_of(node, verdicts):
    """The verdicts on an operation's outputs, with what is known of those that are free.

    Args:
        node: `Node`.
        verdicts: Those that its rule gave, a list.
    """
    if not any(_is_free(v) for v in verdicts):
        return verdicts
    if node.examples == 1:  # the one place there is
        return [_with(v, EVEN) if _is_free(v) else v for v in verdicts]
    by_rule, seeds, found = None, [_seed(v) for v in node.verdicts], []
    shared = for_all(node, seeds, batch_wide(node.verdicts))
    for k, verdict in enumerate(verdicts):
        if _is_free(verdict):
            known = _begun(node, k, seeds)
            if known is None:
                if by_rule is None:
                    by_rule = _by_rule(node)
                known = by_rule[k]
            if isinstance(known, Free):
                seed = seed_of(node, k, seeds)
                if seed is not None or shared or known.batch_wide:
                    known = replace(known, seed=seed, batch_wide=shared)
            verdict = _with(verdict, known)
        found.append(verdict)
    return found


def batch_wide(verdicts):
    """The draws for all rows of a physical batch that free tensors depend on, a frozenset."""
    return frozenset().union(*(_element(v).batch_wide for v in verdicts if _is_free(v)))


def handed_on(verdicts, batch_wide):
    """The verdicts on tensors that depend on these draws as well."""
    return [
        _with(v, replace(_element(v), batch_wide=_element(v).batch_wide | batch_wide))
        if _is_free(v)
        else v
        for v in verdicts
    ]


def with_captured(graph, given, examples):
    """Pairs of an input of a graph and its verdict, with what is known of those it captured."""
    values = {id(inner): outer for outer, inner in graph.captures}
    found = []
    for tensor, verdict in given:
        outer = values.get(id(tensor))
        if verdict == FREE and isinstance(outer, tf.Tensor) and holds_values(outer):
            if hasattr(outer, "numpy") and outer.shape.num_elements() <= _LARGEST:
                verdict = known_of_value(outer.numpy(), examples)
        found.append((tensor, verdict))
    return found


def _is_free(verdict):
    return isinstance(verdict.element if isinstance(verdict, ListOf) else verdict, Free)


def _with(verdict, known):
    if isinstance(known, Free) and isinstance(verdict, ListOf):
        return ListOf(known)
    return known


def _begun(node, k, seeds):
    """What is known of output k by the operation alone; None if its inputs have to be looked at.

    A `Rows` or `Mixed` for a draw that moves with the examples.
    """
    op, tensor = node.op, node.op.outputs[k]
    if is_draw(op.type):
        found = node.walk.draws.of(node, seeds)
        if not isinstance(found, dict):
            return found
        return Free(even=tensor.shape.rank == 0, layouts=found)
    if (tensor.shape.rank == 0 and holds_values(tensor)) or op.type in _EVEN:
        return EVEN
    if op.type in _HANDED_ON:
        return _element(node.verdicts[k]) if _is_free(node.verdicts[k]) else FREE
    if op.type in _KEEP_EVEN:
        inputs = _KEEP_EVEN[op.type]
        inputs = range(len(node.verdicts)) if inputs is None else inputs
        if all(_is_free(node.verdicts[i]) and _element(node.verdicts[i]).even for i in inputs):
            return EVEN
    if _too_small(node, k):
        return FREE
    if op.type == "Const" or tensor.dtype.is_integer or tensor.dtype.is_bool:
        value = _value(node, tensor)
        if value is not None:
            return known_of_value(value, node.examples)
    return FREE if not op.inputs else None


def _element(verdict):
    return verdict.element if isinstance(verdict, ListOf) else verdict


def _seed(verdict):
    return verdict.seed if isinstance(verdict, Free) else None


def _too_small(node, k):
    """Whether no axis of the output has room for the examples."""
    shape = node.output_shape(k)
    if not holds_values(node.op.outputs[k]) or shape is None:
        return False
    return all(n is not None and (n == 0 or n % node.examples) for n in shape)


def _value(node, tensor):
    if tensor.op.type != "Const":
        return node.walk.constants.of(tensor)
    return None if tensor.shape.num_elements() > _LARGEST else tf.get_static_value(tensor)


def known_of_value(value, examples):
    """The `Free` of a constant with this value, for so many examples."""
    value = np.asarray(value)
    if not value.size:
        return EVEN
    if value.dtype.kind in "OSU":  # strings
        bits = value[..., None]
    else:  # which tell 0 from -0
        bits = np.ascontiguousarray(value).reshape(*value.shape, 1).view(np.uint8)
    if (bits == bits.reshape(-1, bits.shape[-1])[0]).all():
        return EVEN
    layouts = {}
    for rows in layouts_of(value.shape, range(value.ndim), examples):
        entries = np.moveaxis(bits, rows.axis, 0)
        entries = entries.reshape(rows.blocks, examples, rows.per_example, -1)
        if (entries == entries[:, :1]).all():
            layouts[rows] = frozenset()
    return Free(layouts=layouts)


def _by_rule(node):
    """What is known of each output from what is known of the inputs, a list."""
    layouts = [{} for _ in node.op.outputs]
    for k, found in enumerate(layouts):
        for axis, multiple_of in _repeated(node).items():
            for rows in layouts_of(node.output_shape(k), [axis], node.examples, multiple_of):
                found[rows] = frozenset()
    rule = rule_of(node.op.type)
    readable = rule is not None and not called_functions(node.op)
    if readable and all(_is_free(v) for v in node.verdicts) and not _writes(node):
        for i in range(len(node.verdicts)):
            for rows, draws in _layouts(node, i):
                for k, (given, needed) in enumerate(_tried(node, rule, i, rows, draws)):
                    if given is not None:
                        layouts[k].setdefault(given, needed)
    return [Free(layouts=found) if found else FREE for found in layouts]


def _writes(node):
    return node.op.op_def.is_stateful and node.op.type not in _READING


def _layouts(node, i):
    """Pairs of the `Rows` that free input i may be taken for, and the draws that move for it."""
    known, tensor = _element(node.verdicts[i]), node.op.inputs[i]
    if not known.even:
        return known.layouts.items()
    shape = node.shape(i) if holds_values(tensor) else None
    if shape is None:
        return []
    return [(rows, frozenset()) for rows in layouts_of(shape, range(len(shape)), node.examples)]


def _tried(node, rule, i, rows, draws):
    """For each output the `Rows` it would be if input i were, or None; and the draws needed."""
    verdicts = list(node.verdicts)
    is_list = not holds_values(node.op.inputs[i])
    verdicts[i] = ListOf(rows) if is_list else rows
    trial = Node(node.op, tuple(verdicts), node.walk)
    nothing = [(None, None)] * len(node.op.outputs)
    try:
        given = rule(trial)
    except (ArithmeticError, IndexError, KeyError, LookupError, TypeError, ValueError):
        return nothing
    needed = draws | trial.draws
    if trial.unanswered() or len({draw.key for draw in needed}) < len(needed):
        return nothing
    given = given if isinstance(given, list | tuple) else [given] * len(node.op.outputs)
    given = [_element(v) for v in given]
    fit = [_fits(node, k, v) for k, v in enumerate(given)]
    return [(v if ok else None, needed) for v, ok in zip(given, fit, strict=True)]


def _fits(node, k, verdict):
    is_list = not holds_values(node.op.outputs[k])
    return isinstance(verdict, Rows) and (
        is_list or fits(verdict, node.output_shape(k), node.examples)
    )


def _repeated(node):
    """Dict from an axis of the result to n, of which entry r is entry r mod n on it, or less."""
    op, after = node.op, node.output_shape()
    if after is None:
        return {}
    if op.type == "BroadcastTo" and node.shape(0) is not None:
        before = (1,) * (len(after) - node.rank(0)) + node.shape(0)
        return {axis: 1 for axis, n in enumerate(before) if n == 1}
    if op.type == "Tile" and node.shape(0) is not None:
        return {axis: n for axis, n in enumerate(node.shape(0)) if n}
    if op.type == "Pack" and len({id(x) for x in op.inputs}) == 1:
        return {op.get_attr("axis") % len(after): 1}
    if op.type == "ConcatV2" and len({id(x) for x in op.inputs[:-1]}) == 1:
        axis, shape = node.constant(len(op.inputs) - 1), node.shape(0)
        if axis is not None and shape is not None and shape[int(axis) % len(shape)]:
            return {int(axis) % len(shape): shape[int(axis) % len(shape)]}
    if op.type in ("TensorListStack", "TensorListGather") and _element(node.verdicts[0]).even:
        return {axis: 1 for axis in range(1, len(after))}
    return {}
