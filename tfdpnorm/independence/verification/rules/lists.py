"""Tensor lists, which loops and `tf.TensorArray` keep their tensors in.

Lemma. A list whose length is free and whose elements are all of rows, laid out in one way, or free,
stays so if such elements are put at free places, and what is taken from free places is one of them.
Stacked, the elements get an axis before their own.
"""

from tfdpnorm.independence.verification.registry import rule
from tfdpnorm.independence.verification.verdicts import (
    FREE,
    ListOf,
    Mixed,
    Rows,
    fits,
    join,
)

_NO_LIST = "is no list whose elements are known"
_PLACES = "depends on examples by its places or sizes"


def _element(node):
    """The verdict on the elements of the list in the first input, or None."""
    verdict = node.verdicts[0]
    if verdict == FREE:
        return verdict
    return verdict.element if isinstance(verdict, ListOf) else None


def _given(node, element, output):
    """The verdict on a tensor taken from a list: free ones among rows have to have their shape."""
    shape = node.output_shape(output)
    if isinstance(element, Rows) and not fits(element, shape, node.examples):
        return node.mixed(f"gives {element} in shape {node.op.outputs[output].shape}")
    return element


def _with(node, element, new):
    """The list with another element."""
    found = join(element, new)
    if found is None:
        return node.mixed(f"holds {element} and {new}")
    return found if isinstance(found, Mixed) else ListOf(found)


rule("TensorListReserve", "EmptyTensorList")(lambda node: node.mixed(_PLACES))
rule("TensorListLength", "TensorListElementShape")(lambda node: FREE)


@rule("TensorListResize")
def _resize(node):
    element = _element(node)
    if element is None or not node.all_free([1]):
        return node.mixed(_PLACES)
    return ListOf(element)


@rule("TensorListPushBack")
def _push(node):
    element = _element(node)
    return node.mixed(_NO_LIST) if element is None else _with(node, element, node.verdicts[1])


@rule("TensorListPopBack")
def _pop(node):
    element = _element(node)
    if element is None or not node.all_free([1]):
        return node.mixed(_NO_LIST)
    return [ListOf(element), _given(node, element, 1)]


@rule("TensorListSetItem")
def _set(node):
    element = _element(node)
    if element is None or not node.all_free([1]):
        return node.mixed(_PLACES)
    return _with(node, element, node.verdicts[2])


@rule("TensorListGetItem")
def _get(node):
    element = _element(node)
    if element is None or not node.all_free([1, 2]):
        return node.mixed(_PLACES)
    return _given(node, element, 0)


@rule("TensorListStack", "TensorListGather")
def _stack(node):
    element = _element(node)
    if element is None or not node.all_free(range(1, len(node.verdicts))):
        return node.mixed(_PLACES)
    if not isinstance(element, Rows):
        return node.mixed("stacks lists") if isinstance(element, ListOf) else element
    return _given(node, element.at(element.axis + 1), 0)


@rule("TensorListFromTensor", "TensorListScatterV2")
def _from_tensor(node):
    rows = node.of_rows(0)
    if rows is None or rows.axis == 0:
        return node.mixed("makes a list of the examples")
    return ListOf(rows.at(rows.axis - 1))


rule("TensorListConcatV2")(lambda node: node.mixed("joins the elements of a list"))


@rule("OptionalFromValue")
def _optional(node):
    """An optional is a list of values, or of none: conditions hand them on to their gradient."""
    found = ListOf(FREE)
    for verdict in node.verdicts:
        found = _with(node, found.element, verdict)
        if isinstance(found, Mixed):
            return found
    return found


@rule("OptionalGetValue")
def _values(node):
    element = _element(node)
    if element is None:
        return node.mixed(_NO_LIST)
    return [_given(node, element, i) for i in range(len(node.op.outputs))]


rule("OptionalHasValue")(lambda node: node.mixed("asks whether there is a value"))
