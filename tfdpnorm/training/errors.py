"""Errors: those of this library as they are worded, those of TensorFlow without private values."""

import contextlib
import re
import traceback

import tensorflow as tf

from tfdpnorm.data.readers import CANNOT_READ
from tfdpnorm.keras_compat.graphs import cause_of

# Where examples are read, these show names of files, and what the user's own code says.
_OF_READING = (
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.UnknownError,
)
_READS = "IteratorGetNext"
_OF_SOURCE = re.compile(rf"ValueError: ({re.escape(CANNOT_READ)}.*)")
_NODE = re.compile(r"Detected at node (\S+)|\[\[\{\{node (\S+?)\}\}\]\]|\[Op:(\w+)\]")


def own_words(error):
    """Returns the ValueError of this library that an error repeats, or None if it is another's.

    Keras and AutoGraph add, in several lines, where in a trace that was.
    """
    cause = cause_of(error)
    frames = list(traceback.walk_tb(cause.__traceback__))
    module = frames[-1][0].f_globals["__name__"]
    is_ours = module.partition(".")[0] == __name__.partition(".")[0]
    return cause if is_ours and isinstance(cause, ValueError) else None


@contextlib.contextmanager
def without_private_values():
    """Context in which errors about values in a graph are raised without those values.

    TensorFlow shows labels that a loss rejects, ids that an embedding does not know, and what an
    assertion compared. Tracebacks end in logs and reports.
    """
    try:
        yield
    except (tf.errors.InvalidArgumentError, *_OF_READING) as error:
        if isinstance(error, _OF_READING) and _READS not in error.message:
            raise  # of a callback that writes files, for instance
        own = _OF_SOURCE.search(error.message)
        if own:
            raise ValueError(own[1]) from None
        found = _NODE.search(error.message)
        where = next(filter(None, found.groups()), None) if found else None
        message = (
            f"{repr(where) if where else 'An operation'} of the model or the loss rejects values "
            "of training examples; often, a label or an id is out of range. To see its message, "
            "which shows private values, run the model and the loss on the data outside of fit()."
        )
        raise type(error)(None, None, message) from None
