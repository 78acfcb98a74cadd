"""Faults of TensorFlow, corrected while this library traces: vectorised rows, second derivatives.

Private parts: the table of converters of `tensorflow.python.ops.parallel_for.pfor`, TensorFlow
2.15, and the inputs that these get. A converter replaces an operation on one row by one on all
rows:

- that of Roll adds 1 to an axis that counts from the end, and so rolls along another one: along
  the rows, if it was the last;
- those of segment sums add to each row's segments those of the rows before, and so a segment beyond
  the last is the first one of the next row.

And `tensorflow.python.ops.nn_impl`, where `tf.nn.moments` holds the mean constant in the variance
(`stop_gradient`). The first derivative is right all the same, since that of the variance with
respect to the mean is zero. The second one is not: of a layer normalisation it is off by its own
size.
"""

import contextlib
import functools

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import nn_impl
from tensorflow.python.ops.parallel_for import pfor

# --- vectorising over rows ---

_UNSORTED = tuple(f"UnsortedSegment{name}" for name in ("Sum", "Max", "Min", "Prod"))
_CONVERTERS = pfor._pfor_converter_registry


@contextlib.contextmanager
def right_converters():
    """Context in which no operation of a row is vectorised into one that mixes the rows."""
    replaced = {"Roll": _roll, **dict.fromkeys(_UNSORTED, _segments)}
    replaced |= {name: _refused for name in _CONVERTERS if name.startswith("SparseSegment")}
    before = {name: _CONVERTERS[name] for name in replaced if name in _CONVERTERS}
    _CONVERTERS.update({n: functools.partial(replaced[n], before[n]) for n in before})
    try:
        yield
    finally:
        _CONVERTERS.update(before)


def vectorized_map(function, rows):
    """Returns `tf.vectorized_map(function, rows)`, by `right_converters`."""
    with right_converters():
        return tf.vectorized_map(function, rows)


def _roll(convert, of):
    axis, rank = tf.get_static_value(of.unstacked_input(2)), of.op.inputs[0].shape.rank
    if axis is None or rank is None:
        _refused(convert, of)
    axis = tf.constant(np.mod(axis, rank), of.input(2).t.dtype)
    of.inputs[2] = of.input(2)._replace(t=axis)
    return convert(of)


def _segments(convert, of):
    ids, count = of.input(1), of.unstacked_input(2)
    inside = ids.t < tf.cast(count, ids.t.dtype)
    # A negative one belongs to no segment, here as on one row.
    of.inputs[1] = ids._replace(t=tf.where(inside, ids.t, -tf.ones_like(ids.t)))
    return convert(of)


def _refused(convert, of):
    del convert
    raise NotImplementedError(f"{of.op_type} is not vectorised: it might mix the rows")


# --- second derivatives of normalisation layers ---


class _WithoutStop:
    """The module of array operations, but for `stop_gradient`."""

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        return getattr(self._module, name)

    def stop_gradient(self, x, name=None):
        return tf.identity(x, name)


@contextlib.contextmanager
def exact_moments():
    """While this lasts, what is traced has the right second derivatives of `tf.nn.moments`."""
    module = nn_impl.array_ops
    nn_impl.array_ops = _WithoutStop(module)
    try:
        yield
    finally:
        nn_impl.array_ops = module
