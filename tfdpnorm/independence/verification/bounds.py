"""Between which bounds the entries of tensors of integers lie, as far as the graph alone says it.

Lemma. The bounds hold in every run, whatever the examples are: those of a type of numbers; those in
an operation's definition, such as the places that TopK finds or a remainder; and what an operation
that grows with its inputs makes of the lower bounds of these, and of the upper ones. What could
overflow has the bounds of its type.
"""

import numpy as np

from tfdpnorm.independence.verification.constants import FOLDS, INTEGERS

_LARGEST = 2**20  # entries; larger ones are data
_SAFE = 2.0**62

# By type of operation, the inputs that it grows with; the others have to be known. None: all.
_GROWING = {
    "Add": None,
    "AddV2": None,
    "BroadcastTo": [0],
    "ConcatV2": slice(0, -1),
    "EnsureShape": [0],
    "ExpandDims": [0],
    "GatherV2": [0],
    "Identity": [0],
    "Max": [0],
    "Maximum": None,
    "Min": [0],
    "Minimum": None,
    "Pack": None,
    "PreventGradient": [0],
    "Range": [],
    "Reshape": [0],
    "ReverseV2": [0],
    "Slice": [0],
    "Split": [1],
    "SplitV": [0],
    "Squeeze": [0],
    "StopGradient": [0],
    "StridedSlice": [0],
    "Tile": [0],
    "Transpose": [0],
    "Unpack": None,
}


class Bounds:
    """The bounds of one graph's tensors of integers, from its `Constants`."""

    def __init__(self, constants):
        self._constants = constants
        self._found = {}

    def of(self, tensor):
        """Returns the lowest and the highest value of each entry of a tensor, two int64 arrays.

        None for tensors that hold no integers or have no known shape, and for large ones.
        """
        if id(tensor) not in self._found:
            self._found[id(tensor)] = None  # for calls that ask while it is looked for
            self._found[id(tensor)] = self._find(tensor)
        return self._found[id(tensor)]

    def decide(self, tensor):
        """Whether the bounds leave one value for each entry of a tensor."""
        found = self.of(tensor)
        return found is not None and np.array_equal(*found)

    def _find(self, tensor):
        widest = _of_type(tensor.dtype)
        size = tensor.size
        if widest is None or size is None or size > _LARGEST:
            return None
        value = self._constants.of(tensor)
        if value is not None:
            return (value.astype(np.int64),) * 2
        try:
            with np.errstate(over="ignore"):
                low, high = (np.asarray(n) for n in self._of_operation(tensor) or widest)
            if (low < widest[0]).any() or (high > widest[1]).any():
                low, high = widest
            return tuple(np.broadcast_to(n, tensor.shape).astype(np.int64) for n in (low, high))
        except (ArithmeticError, IndexError, TypeError, ValueError):
            return tuple(np.full(tensor.shape, n, np.int64) for n in widest)

    def _of_operation(self, tensor):
        """The bounds that the operation gives to a tensor, or None."""
        op = tensor.op
        if op.type in _GROWING:
            return self._grown(op, tensor.index)
        if op.type == "TopKV2" and tensor.index == 1:
            return 0, op.inputs[0].shape[-1] - 1
        if op.type in ("ArgMax", "ArgMin"):
            axis = self._constants.of(op.inputs[1])
            return 0, op.inputs[0].shape[int(axis)] - 1
        if op.type == "Cast":
            return self.of(op.inputs[0])
        if op.type in ("Sub", "Mul", "FloorMod"):
            given = [self.of(x) for x in op.inputs]
            return None if None in given else _ARITHMETIC[op.type](*given)
        return None

    def _grown(self, op, index):
        given = [self.of(x) for x in op.inputs]
        if None in given:
            return None
        numbers = list(range(len(given)))
        which = _GROWING[op.type]
        free = numbers if which is None else numbers[which] if isinstance(which, slice) else which
        if not all(np.array_equal(*given[i]) for i in numbers if i not in free):
            return None
        ends = [FOLDS[op.type](op, *side) for side in zip(*given, strict=True)]
        ends = [end[index] if isinstance(end, list) else end for end in ends]
        if op.type in ("Add", "AddV2"):
            return _safe(
                *ends, *(np.add(*map(np.float64, side)) for side in zip(*given, strict=True))
            )
        return ends


def _of_type(dtype):
    """The bounds of a type of numbers; None if it holds no integers, or others than int64 does."""
    if dtype == "bool":
        return 0, 1
    if dtype not in INTEGERS or dtype == "uint64":
        return None
    limits = np.iinfo(dtype)
    return limits.min, limits.max


def _safe(low, high, *roughly):
    """The bounds, unless they were computed from numbers that may overflow int64."""
    return None if any((abs(x) > _SAFE).any() for x in roughly) else (low, high)


def _difference(one, other):
    rough = [np.subtract(*map(np.float64, pair)) for pair in zip(one, other[::-1], strict=True)]
    return _safe(one[0] - other[1], one[1] - other[0], *rough)


def _product(one, other):
    pairs = [(a, b) for a in one for b in other]
    rough = [np.multiply(*map(np.float64, pair)) for pair in pairs]
    products = np.stack([a * b for a, b in pairs])
    return _safe(products.min(0), products.max(0), *rough)


def _remainder(one, other):
    if (other[0] <= 0).any():
        return None
    unchanged = (one[0] >= 0) & (one[1] < other[0])
    return np.where(unchanged, one[0], 0), np.where(unchanged, one[1], other[1] - 1)


_ARITHMETIC = {"Sub": _difference, "Mul": _product, "FloorMod": _remainder}
