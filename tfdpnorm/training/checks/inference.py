"""Inference changes no variable: what one kept of examples would leave without noise."""

import contextlib

import numpy as np
import tensorflow as tf

from tfdpnorm.independence.changed_state import changed_by
from tfdpnorm.keras_compat.graphs import current_graph, operation_count


@contextlib.contextmanager
def changes_no_variable(model, metrics=()):
    """Context in which code runs that sees examples and must change no variable.

    In a graph that is traced, the operations are looked at, those in called functions as well,
    whatever variable they change and whether or not Keras knows of it: nothing has run yet. Eagerly
    the variables of the model are compared, and put back. What code of the user's keeps elsewhere
    in an eager call, in attributes of Python for instance, is not seen.

    Args:
        model: A Keras model.
        metrics: Metrics, whose variables may change.

    Raises:
        ValueError: naming the operation or the variable.
    """
    eagerly, begin = tf.executing_eagerly(), operation_count()
    # While these exist, whatever writes a variable has to give it a new buffer.
    before = [(v, v.read_value()) for v in model.variables] if eagerly else []
    changed = []
    try:
        yield
    finally:  # Also after an error: what was written until then would stay.
        own = {id(v.handle) for metric in metrics for v in metric.variables}
        for variable, value in before:
            if id(variable.handle) not in own and not _same(value, variable):
                variable.assign(value)
                changed.append(f"another value of {variable.name!r}")
    operations = [] if eagerly else current_graph().get_operations()[begin:]
    changed += [f"{op.type} {op.name!r}" for op, h in changed_by(operations) if id(h) not in own]
    if changed:
        raise ValueError(
            f"Expected inference that changes no variable but those of metrics, got {changed[0]}. "
            "What it keeps of examples would be released, or change later updates, without noise. "
            "Remove the assignment from the model, the loss or the metric."
        )


def _same(value, variable):
    old, new = np.asarray(value), np.asarray(variable.read_value())
    if old.shape != new.shape:
        return False
    is_one_buffer = old.size > 0 and old.ctypes.data == new.ctypes.data
    return is_one_buffer or old.tobytes() == new.tobytes()
