"""Errors of TensorFlow that would show values of private examples."""

import contextlib
import re

import tensorflow as tf

_NODE = re.compile(r"Detected at node (\S+)|\[\[\{\{node (\S+?)\}\}\]\]|\[Op:(\w+)\]")


@contextlib.contextmanager
def without_private_values():
    """Context in which errors about values in a graph are raised without what they say of them.

    TensorFlow shows labels that a loss refuses, ids that an embedding does not know, and what an
    assertion compared. Tracebacks end in logs and reports.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = _NODE.search(error.message)
        where = next(filter(None, found.groups()), None) if found else None
        message = (
            "Expected values that the operations of model and loss take, got some of training "
            f"examples that {repr(where) if where else 'one of them'} refuses. What it says is "
            "left out, since it shows private values. To see it, run the model and the loss on the "
            "data outside of fit(); often, a label or an id is out of range."
        )
        raise tf.errors.InvalidArgumentError(None, None, message) from None
