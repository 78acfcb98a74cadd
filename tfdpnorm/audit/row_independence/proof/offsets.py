"""Tensors of integers that are of rows but for an offset that the graph knows, such as flat places.

A place among the entries of all examples, as in `range(P) * n + index`, is another number for each
example, and no permutation of the examples permutes such numbers alike. But the index itself is of
rows, and the rest is known.

Lemma. Let each of some inputs of an operation be the sum of an offset, a known array, and a
remainder that is of rows or the same everywhere. If the operation moves entries to free places, or
adds them, or multiplies them by known numbers, its result is the same operation's on the offsets
plus the same one's on the remainders, in whole numbers. Their own rule says what the latter is. The
bounds of the result see to it that no number was too large for its type.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfdpnorm.audit.row_independence.proof.constants import FOLDS
from tfdpnorm.audit.row_independence.proof.registry import Node, rule_of, static_shape
from tfdpnorm.audit.row_independence.proof.verdicts import EVEN, Free, Rows, fits

_SMALL = 2**30  # products of two such numbers are exact in int64
# By type of operation, the inputs that have offsets; the others have to be known. None: all.
_LINEAR = {
    "Add": None,
    "AddV2": None,
    "BroadcastTo": slice(0, 1),
    "Cast": None,
    "ConcatV2": slice(0, -1),
    "EnsureShape": None,
    "ExpandDims": slice(0, 1),
    "GatherV2": slice(0, 1),
    "Identity": None,
    "Pack": None,
    "PreventGradient": None,
    "Reshape": slice(0, 1),
    "ReverseV2": slice(0, 1),
    "Slice": slice(0, 1),
    "Split": slice(1, 2),
    "SplitV": slice(0, 1),
    "Squeeze": None,
    "StopGradient": None,
    "StridedSlice": slice(0, 1),
    "Sub": None,
    "Tile": slice(0, 1),
    "Transpose": slice(0, 1),
    "Unpack": None,
}


class Shifted(NamedTuple):
    """A tensor as the sum of a known array and of what is of rows.

    Attributes:
        offset: int64 array of the tensor's shape.
        remainder: The verdict on the tensor less the offset: `Rows`, or `EVEN`.
    """

    offset: np.ndarray
    remainder: object


class Offsets:
    """The offsets of one graph's tensors of integers.

    Args:
        walk: The `Walk` over the graph.
    """

    def __init__(self, walk):
        self._walk = walk
        self._found = {}

    def of(self, tensor):
        """Returns the `Shifted` of a tensor; None if there is none that is known."""
        if id(tensor) not in self._found:
            self._found[id(tensor)] = None  # for whoever asks while it is looked for
            self._found[id(tensor)] = self._find(tensor)
        return self._found[id(tensor)]

    def forget(self):
        """Forgets all, since the verdicts have changed."""
        self._found.clear()

    def _find(self, tensor):
        shape = static_shape(tensor)
        if tensor.dtype not in (tf.int32, tf.int64) or not _small(self._walk.bounds.of(tensor)):
            return None
        value = self._walk.constants.of(tensor)
        if value is not None:
            return Shifted(value.astype(np.int64), EVEN)
        verdict = self._walk.verdict(tensor)
        if isinstance(verdict, Rows):
            return Shifted(np.zeros(shape, np.int64), verdict)
        if isinstance(verdict, Free):
            return None
        given = self._unchanged(tensor.op)
        if given is not None:
            return self.of(given)
        try:
            return self._of_operation(tensor)
        except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
            return None

    def _of_operation(self, tensor):
        op, k = tensor.op, tensor.value_index
        inputs = list(op.inputs)
        values = [self._walk.constants.of(x) for x in inputs]
        if op.type == "Mul":
            shifting = [i for i, value in enumerate(values) if value is None][:1]
        elif op.type in _LINEAR:
            which = _LINEAR[op.type]
            shifting = list(range(len(inputs)))[slice(None) if which is None else which]
        else:
            return None
        verdicts = [self._walk.verdict(x) for x in inputs]
        for i in shifting:
            shifted = self.of(inputs[i])
            if shifted is None:
                return None
            values[i], verdicts[i] = shifted
        if any(value is None or not _small([value]) for value in values):
            return None
        offset = FOLDS[op.type](op, *values)
        offset = np.asarray(offset[k] if isinstance(offset, list) else offset)
        trial = Node(op, tuple(verdicts), self._walk)
        if not trial.rows or not all(isinstance(v, Free | Rows) for v in verdicts):
            return None
        found = rule_of(op.type)(trial)
        found = found[k] if isinstance(found, list | tuple) else found
        if not isinstance(found, Rows) or trial.draws or trial.unanswered():
            return None
        shape = static_shape(tensor)
        right = offset.shape == shape and fits(found, shape, self._walk.examples)
        return Shifted(offset.astype(np.int64), found) if right and _small([offset]) else None

    def _unchanged(self, op):
        """The input that an operation gives on as it is, by its bounds; or None."""
        if op.type not in ("FloorMod", "Maximum", "Minimum"):
            return None
        one, other = op.inputs
        given = [self._walk.bounds.of(x) for x in op.inputs]
        if None in given:
            return None
        (low, high), (least, most) = given
        if op.type == "FloorMod":
            found = one if (low >= 0).all() and (high < least).all() else None
        else:
            sign = 1 if op.type == "Maximum" else -1
            ends = [(low, most), (least, high)] if sign == 1 else [(high, least), (most, low)]
            kept = [bool((sign * a >= sign * b).all()) for a, b in ends]
            found = one if kept[0] else other if kept[1] else None
        return found if found is not None and found.shape == op.outputs[0].shape else None


def _small(arrays):
    """Whether arrays have small entries only; False for None."""
    return arrays is not None and all((np.abs(a) < _SMALL).all() for a in arrays)
