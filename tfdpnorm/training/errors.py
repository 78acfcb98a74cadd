"""Errors: those of this library as they are worded, those of TensorFlow without private values."""

import contextlib
import re
import traceback

import tensorflow as tf

from tfdpnorm.keras_compat.graphs import cause_of

_NODE = re.compile(r"Detected at node (\S+)|\[\[\{\{node (\S+?)\}\}\]\]|\[Op:(\w+)\]")


def own_words(error):
    """Returns the ValueError of this library that an error repeats, or None if it is another's.

    Keras and AutoGraph add, in several lines, where in a trace that was.

    Args:
        error: What a function that was traced raised.
    """
    cause = cause_of(error)
    frames = list(traceback.walk_tb(cause.__traceback__))
    module = frames[-1][0].f_globals["__name__"]
    is_ours = module.partition(".")[0] == __name__.partition(".")[0]
    return cause if is_ours and isinstance(cause, ValueError) else None


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
