"""Values of small integer tensors that the graph alone decides, such as axes and shapes."""

import numpy as np

_LARGEST = 4096  # entries; larger ones are data
_KINDS = "iub"
INTEGERS = frozenset(
    ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
)


class Constants:
    """The constants of one graph.

    `given` has the values of some of its inputs, arrays by the id of a tensor. The operations of
    the constants that are asked for are added to the set `read`.
    """

    def __init__(self, given=(), read=None):
        self.read = set() if read is None else read
        self._values = dict(given)
        self._waiting = set()

    def give(self, tensor, value):
        """Notes the value of a tensor that a function gave: an array, or None."""
        self._values[id(tensor)] = value

    def of(self, tensor):
        """Returns the value of a tensor as an array, or None if it is not known."""
        key = id(tensor)
        if key not in self._values and key not in self._waiting:
            self._waiting.add(key)
            self._values[key] = self._fold(tensor)
            self._waiting.discard(key)
        return self._values.get(key)

    def _fold(self, tensor):
        if tensor.dtype not in INTEGERS:
            return None
        dtype, size = np.dtype(tensor.dtype), tensor.size
        if size is not None and size > _LARGEST:
            return None
        op = tensor.op
        if op.type in ("Shape", "Size", "Rank", "ShapeN"):
            given = op.inputs[tensor.index if op.type == "ShapeN" else 0]
            if op.type == "Rank":
                value = given.rank
            elif given.size is None:
                value = None
            else:
                value = given.size if op.type == "Size" else given.shape
            return None if value is None else np.asarray(value, tensor.dtype)
        if op.type in ("ZerosLike", "OnesLike") and size is not None:
            fill = np.zeros if op.type == "ZerosLike" else np.ones
            return fill(tensor.shape, dtype)
        if op.type == "Const":
            self.read.add(op)
            return op.attributes.get("value")
        fold = FOLDS.get(op.type)
        if fold is None:
            return None
        inputs = [self.of(x) for x in op.inputs]
        if any(x is None for x in inputs):
            return None
        try:
            values = fold(op, *inputs)
        except (ValueError, IndexError, TypeError, ArithmeticError):
            return None
        value = values[tensor.index] if isinstance(values, list) else values
        value = np.asarray(value)
        if value.dtype.kind not in _KINDS or value.size > _LARGEST:
            return None
        if not _may_be(tensor.shape, value.shape):
            return None
        return value.astype(dtype)


def _may_be(shape, known):
    """Whether a static shape allows for a known one."""
    return shape is None or (
        len(shape) == len(known) and all(a in (None, b) for a, b in zip(shape, known, strict=True))
    )


def strided(op, begin, end, strides, rank=None):
    """The index that a StridedSlice stands for: a tuple of slices, numbers, None and Ellipsis."""
    masks = {
        name: op.attributes[f"{name}_mask"]
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    index = []
    for i in range(len(begin)):
        bit = 1 << i
        if masks["ellipsis"] & bit:
            index.append(Ellipsis)
        elif masks["new_axis"] & bit:
            index.append(None)
        elif masks["shrink_axis"] & bit:
            index.append(int(begin[i]))
        else:
            first = None if masks["begin"] & bit else int(begin[i])
            last = None if masks["end"] & bit else int(end[i])
            index.append(slice(first, last, int(strides[i])))
    return tuple(index)


def _broadcast_gradient_axes(op, one, other):
    if list(one) == list(other):
        return [np.zeros([0], one.dtype)] * 2
    rank = max(len(one), len(other))
    shapes = [[1] * (rank - len(s)) + list(s) for s in (one, other)]
    return [np.asarray([i for i, n in enumerate(s) if n == 1], one.dtype) for s in shapes]


def _stitched(op, *arguments):
    count = len(arguments) // 2
    indices, data = arguments[:count], arguments[count:]
    size = 1 + max((int(i.max()) for i in indices if i.size), default=-1)
    inner = data[0].shape[indices[0].ndim :]
    result = np.zeros((size, *inner), data[0].dtype)
    for i, values in zip(indices, data, strict=True):
        result[i.reshape(-1)] = values.reshape(-1, *inner)
    return result


def _reduced(function):
    def fold(op, x, axes):
        axes = tuple(int(a) for a in np.reshape(axes, [-1]))
        return function(x, axis=axes, keepdims=op.attributes["keep_dims"])

    return fold


def _gathered(op, params, indices, axis):
    if op.attributes["batch_dims"] or np.any(indices < 0):
        raise ValueError
    return np.take(params, indices, axis=int(axis))


def _binary(function):
    return lambda op, a, b: function(a, b)


def _difference(op, x, left_out):
    places = np.flatnonzero(~np.isin(x, left_out))
    return [x[places], places]


def _sliced(op, x, begin, size):
    size = [s if s >= 0 else n - b for s, n, b in zip(size, x.shape, begin, strict=True)]
    return x[tuple(slice(b, b + s) for b, s in zip(begin, size, strict=True))]


# By type of operation, the function from it and its inputs' values to its outputs'.
FOLDS = {
    "Identity": lambda op, x: x,
    "StopGradient": lambda op, x: x,
    "PreventGradient": lambda op, x: x,
    "EnsureShape": lambda op, x: x,
    "Cast": lambda op, x: x,
    "Pack": lambda op, *x: np.stack(x, axis=op.attributes["axis"]),
    "Unpack": lambda op, x: [
        np.take(x, i, axis=op.attributes["axis"]) for i in range(op.attributes["num"])
    ],
    "ConcatV2": lambda op, *x: np.concatenate(x[:-1], axis=int(x[-1])),
    "Split": lambda op, axis, x: np.split(x, op.attributes["num_split"], axis=int(axis)),
    "SplitV": lambda op, x, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis=int(axis)),
    "StridedSlice": lambda op, x, *by: x[strided(op, *by)],
    "Slice": _sliced,
    "Reshape": lambda op, x, shape: np.reshape(x, shape),
    "ExpandDims": lambda op, x, axis: np.expand_dims(x, int(axis)),
    "Squeeze": lambda op, x: np.squeeze(x, tuple(op.attributes["squeeze_dims"]) or None),
    "Transpose": lambda op, x, axes: np.transpose(x, axes),
    "ReverseV2": lambda op, x, axes: np.flip(x, tuple(int(a) for a in axes)),
    "Tile": lambda op, x, times: np.tile(x, times),
    "Fill": lambda op, shape, value: np.full(shape, value),
    "BroadcastTo": lambda op, x, shape: np.broadcast_to(x, shape),
    "BroadcastArgs": lambda op, a, b: np.asarray(np.broadcast_shapes(tuple(a), tuple(b)), a.dtype),
    "BroadcastGradientArgs": _broadcast_gradient_axes,
    "Range": lambda op, first, last, step: np.arange(first, last, step),
    "GatherV2": _gathered,
    "DynamicStitch": _stitched,
    "ParallelDynamicStitch": _stitched,
    "InvertPermutation": lambda op, x: np.argsort(x),
    "ListDiff": _difference,
    "ConcatOffset": lambda op, axis, *shapes: _offsets(int(axis), shapes),
    "Prod": _reduced(np.prod),
    "Sum": _reduced(np.sum),
    "Max": _reduced(np.max),
    "Min": _reduced(np.min),
    "All": _reduced(np.all),
    "Any": _reduced(np.any),
    "Add": _binary(np.add),
    "AddV2": _binary(np.add),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "FloorDiv": _binary(np.floor_divide),
    "FloorMod": _binary(np.mod),
    "Maximum": _binary(np.maximum),
    "Minimum": _binary(np.minimum),
    "Equal": _binary(np.equal),
    "NotEqual": _binary(np.not_equal),
    "Less": _binary(np.less),
    "LessEqual": _binary(np.less_equal),
    "Greater": _binary(np.greater),
    "GreaterEqual": _binary(np.greater_equal),
    "LogicalAnd": _binary(np.logical_and),
    "LogicalOr": _binary(np.logical_or),
    "LogicalNot": lambda op, x: np.logical_not(x),
    "Neg": lambda op, x: np.negative(x),
    "Abs": lambda op, x: np.abs(x),
    "Sign": lambda op, x: np.sign(x),
    "SelectV2": lambda op, c, a, b: np.where(c, a, b),
}


def _offsets(axis, shapes):
    offsets, at = [], 0
    for shape in shapes:
        offset = np.zeros_like(shape)
        offset[axis] = at
        at += int(shape[axis])
        offsets.append(offset)
    return offsets
