"""A function of one row, applied to every row of a batch."""

import contextlib
import logging
import traceback
import warnings

import tensorflow as tf

from tfdpnorm.keras_compat.corrections import looped_jacobian, right_converters
from tfdpnorm.keras_compat.graphs import traced

_STACK_OF_ROWS = "/pfor/TensorArrayV2Stack/TensorListStack"


def map_rows(one, rows):
    """Applies a function to each row and stacks the results: vectorised, or row after row.

    `one` maps a structure of single rows to one of tensors; `rows` is a structure of [rows, ...],
    whose last part is a tensor. Vectorising is tried in a graph apart. What a failed try leaves in
    a graph would be run with it: loops and random operations have effects, and half of a vectorised
    loop may fail as it runs.
    """
    count = tf.shape(rows[-1])[0]
    may_be_empty = not rows[-1].shape[0]
    if may_be_empty:
        rows = tf.nest.map_structure(_at_least_one_row, rows)
    with _quiet_vectorization():
        try:
            specs = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), tuple(rows))
            apart = traced(lambda *rows: tf.vectorized_map(one, rows), specs)
            # What is stacked may have another shape for each row, as in `tf.where`. An operation
            # without a converter is run one row at a time, which shows only when it runs.
            for op in apart.graph.get_operations():
                of_each = op.type == "TensorListStack" and op.name.endswith(_STACK_OF_ROWS)
                if of_each and not op.outputs[0].shape[1:].is_fully_defined():
                    name = op.name.removesuffix(_STACK_OF_ROWS)
                    raise NotImplementedError(f"{name} may have another shape for each row")
        except Exception as error:  # converters of TensorFlow raise whatever their code runs into
            # If the function itself fails, it fails here again, with its own message.
            of_one = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape[1:], t.dtype), rows)
            function = tf.function(one)
            outputs = function.get_concrete_function(of_one).structured_outputs
            signature = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), outputs)
            results = tf.map_fn(function, rows, fn_output_signature=signature)
            _warn_of_loop(error)
        else:
            results = apart(*rows)
    if may_be_empty:
        results = tf.nest.map_structure(lambda t: t[:count], results)
    return results


def jacobian_of_rows(tape, losses, variables):
    """Returns `tape.jacobian(losses, variables)` of a persistent tape: vectorised or row by row."""
    with _quiet_vectorization():
        try:
            return tape.jacobian(losses, variables)
        except Exception as error:  # see `map_rows`
            jacobian = looped_jacobian(tape, losses, variables)
            _warn_of_loop(error)
            return jacobian


@contextlib.contextmanager
def refused_unless_vectorized(engine):
    """Context of an engine that only vectorises: other operations raise a ValueError naming it."""
    with _quiet_vectorization():
        try:
            yield
        except Exception as error:  # see `map_rows`
            # An error of vectorisation, not of the operations themselves?
            files = [
                frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)
            ]
            if not any("parallel_for" in file for file in files):
                raise
            raise ValueError(
                "Expected operations that TensorFlow can vectorise over rows with "
                f"engine={engine!r}, got one that it cannot vectorise ({_in_short(error)}). Use "
                'engine="book_keeping" or engine="per_example".'
            ) from None


def _warn_of_loop(error):
    warnings.warn(
        "Examples are taken one row at a time, which is slow: TensorFlow cannot vectorise one of "
        f"their ops ({_in_short(error)}). For an LSTM or GRU layer, unroll=True avoids it.",
        stacklevel=3,
    )


def _at_least_one_row(rows):
    """`rows`, or a row of zeros if there are none: several ops do not vectorise over no rows."""
    none = tf.cast(tf.equal(tf.shape(rows)[:1], 0), tf.int32)
    extra = tf.zeros(tf.concat([none, tf.shape(rows)[1:]], 0), rows.dtype)
    return tf.ensure_shape(tf.concat([rows, extra], 0), [None, *rows.shape[1:]])


def _in_short(error):
    """The type of an error and its last line, the cause, behind stack traces of AutoGraph."""
    lines = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *(line.strip() for line in lines[-1:])])


@contextlib.contextmanager
def _quiet_vectorization():
    """Context of vectorising, without TensorFlow's long reports on ops that it cannot."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with right_converters():
            yield
    finally:
        logger.setLevel(level)
