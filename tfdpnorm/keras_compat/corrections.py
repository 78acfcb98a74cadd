"""Faults of TensorFlow and Keras, corrected while this library traces: rows, second derivatives.

Private parts: the table of converters of `tensorflow.python.ops.parallel_for.pfor`, TensorFlow
2.15, and the inputs that these get. A converter replaces an operation on one row by one on all
rows:

- that of Roll adds 1 to an axis that counts from the end, and so rolls along another one: along
  the rows, if it was the last;
- those of segment sums add to each row's segments those of the rows before, and so a segment beyond
  the last is the first one of the next row;
- that of Squeeze without axes takes the axis of the rows away too, if there is one row;
- those of BiasAdd and of its gradient take channels first for those of images;
- that of PadV2 pads with zeros, whatever the constant.

Converters that no test has compared with a loop over rows are not used (`vectorizable`).

Another one gives the right operation, at which TensorFlow 2.21 spoils the memory of the process:
that of BatchMatMulV2, where a matrix is multiplied for all rows and an axis of both has one entry,
as in [8, 1, 4, 5] times [5, 6]. Such axes are taken out and put back.

Of Keras 3: `add` of its backend for TensorFlow takes a second term of shape [1, C, 1] for a bias,
of the last axis if the first term is [1, C, C], so that one row alone is added up otherwise than
among others.

And `tensorflow.python.ops.nn_impl`, where `tf.nn.moments` holds the mean constant in the variance
(`stop_gradient`). The first derivative is right all the same, since that of the variance with
respect to the mean is zero. The second one is not: of a layer normalisation it is off by its own
size.
"""

import contextlib
import functools

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python.ops import nn_impl
from tensorflow.python.ops.parallel_for import pfor

from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.keras_compat.vectorizable import VECTORIZABLE

if KERAS_3:
    from keras.src.backend import numpy as _numpy_of_keras

# --- vectorising over rows ---

_UNSORTED = tuple(f"UnsortedSegment{name}" for name in ("Sum", "Max", "Min", "Prod"))
_CONVERTERS = pfor._pfor_converter_registry


@contextlib.contextmanager
def right_converters():
    """Context in which operations are vectorised by right converters only, or not at all.

    Those that are not `VECTORIZABLE` raise NotImplementedError as they are vectorised, in called
    functions and in loops too.
    """
    replaced = {name: _refused for name in _CONVERTERS if name not in VECTORIZABLE}
    replaced |= {"Roll": _roll, **dict.fromkeys(_UNSORTED, _segments)}
    replaced |= {"Squeeze": _squeeze, "BiasAdd": _bias_add, "BiasAddGrad": _bias_gradient}
    replaced |= {"BatchMatMulV2": _product, "PadV2": _pad}
    before = {name: _CONVERTERS[name] for name in replaced if name in _CONVERTERS}
    _CONVERTERS.update({n: functools.partial(replaced[n], before[n]) for n in before})
    try:
        with _right_addition() if KERAS_3 else contextlib.nullcontext():
            yield
    finally:
        _CONVERTERS.update(before)


def looped_jacobian(tape, losses, variables):
    """Returns `tape.jacobian(losses, variables)`, with one row after the other."""
    return tape.jacobian(losses, variables, experimental_use_pfor=False)


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


def _squeeze(convert, of):
    if of.get_attr("squeeze_dims"):
        return convert(of)
    shape = of.op.inputs[0].shape
    if not shape.is_fully_defined():
        _refused(convert, of)
    axes = [1 + axis for axis, size in enumerate(shape) if size == 1]
    x = of.stacked_input(0)
    return pfor.wrap(tf.squeeze(x, axes) if axes else tf.identity(x), True)


def _bias_add(convert, of):
    if of.get_attr("data_format") != b"NCHW" or not of.input(1).is_stacked:
        return convert(of)
    of.stack_inputs()
    x, bias = of.stacked_input(0), of.stacked_input(1)
    ones = [1] * (of.op.inputs[0].shape.rank - 2)
    bias = tf.reshape(bias, tf.concat([tf.shape(bias)[:1], [1], tf.shape(bias)[1:], ones], 0))
    return pfor.wrap(x + bias, True)


def _bias_gradient(convert, of):
    if of.get_attr("data_format") != b"NCHW":
        return convert(of)
    rank = of.op.inputs[0].shape.rank
    return pfor.wrap(tf.reduce_sum(of.stacked_input(0), [1, *range(3, rank + 1)]), True)


def _pad(convert, of):
    del convert
    # If the constant is of each row, TensorFlow runs the operation row by row.
    x, paddings, constant = of.stacked_input(0), of.unstacked_input(1), of.unstacked_input(2)
    paddings = tf.pad(paddings, [[1, 0], [0, 0]])
    padded = tf.raw_ops.PadV2(input=x, paddings=paddings, constant_values=constant)
    return pfor.wrap(padded, True)


def _product(convert, of):
    shapes = [x.shape[:-2].as_list() for x in of.op.inputs if x.shape.rank is not None]
    if len(shapes) < 2:
        return convert(of)
    rank = max(map(len, shapes))  # of one row, without those of the matrices
    sizes = [[1] * (rank - len(shape)) + shape for shape in shapes]
    axes = [axis for axis in range(rank) if sizes[0][axis] == sizes[1][axis] == 1]
    if not axes:
        return convert(of)
    inputs = [of.input(0), of.input(1)]
    for number, (given, shape) in enumerate(zip(inputs, shapes, strict=True)):
        ones = [axis - rank - 2 for axis in axes if rank - axis <= len(shape)]
        x = tf.squeeze(given.t, ones) if ones else given.t
        missing = rank - len(axes) + 3 - x.shape.rank if given.is_stacked else 0
        for _ in range(missing):  # axes of the other matrix come after that of the rows
            x = tf.expand_dims(x, 1)
        inputs[number] = x
    product = tf.raw_ops.BatchMatMulV2(
        x=inputs[0], y=inputs[1], adj_x=of.get_attr("adj_x"), adj_y=of.get_attr("adj_y")
    )
    for axis in reversed(axes):
        product = tf.expand_dims(product, axis - rank - 2)
    return pfor.wrap(product, True)


@contextlib.contextmanager
def _right_addition():
    """While this lasts, Keras 3 takes nothing but a vector for a bias."""
    add = _numpy_of_keras.add

    def right(x1, x2):
        of_slices = any(isinstance(x, (tf.SparseTensor, tf.IndexedSlices)) for x in (x1, x2))
        if of_slices or len(getattr(x2, "shape", ())) < 2:
            return add(x1, x2)
        dtype = keras.backend.result_type(getattr(x1, "dtype", type(x1)), x2.dtype)
        return tf.add(*(keras.ops.convert_to_tensor(x, dtype) for x in (x1, x2)))

    _numpy_of_keras.add = right
    try:
        yield
    finally:
        _numpy_of_keras.add = add


def _refused(convert, of):
    del convert
    raise NotImplementedError(f"{of.op_type} is not vectorised: it might mix or change the rows")


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
