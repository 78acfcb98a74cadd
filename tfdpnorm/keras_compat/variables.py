"""The version of Keras, and variables as TensorFlow has them, whichever Keras has wrapped them.

A variable of Keras 3 is no `tf.Variable`: a tape does not watch it, it has no `ref()`, and its
dtype is a string. Private parts of Keras 3: `_value`, the `tf.Variable` behind it, which is what
gradients are taken by, noise is added to and graphs read; and the class of variables, of which
`keras.Variable` up to Keras 3.7 is a subclass that no layer uses. Under Keras 2 a variable is its
own.
"""

import importlib.metadata
import warnings

import tensorflow as tf
from tensorflow.python.eager.record import VariableWatcher

KERAS_VERSION = importlib.metadata.version("keras")
KERAS = tuple(int(part) for part in KERAS_VERSION.split(".")[:2])
KERAS_3 = KERAS >= (3, 0)

_OLDEST, _NEWEST = (3, 5), (3, 15)  # of Keras 3 that the tests run with

if KERAS_3 and KERAS < _OLDEST:
    raise ImportError(
        f"Keras 3.5 or later is needed, {KERAS_VERSION} is installed: pip install -U keras"
    )
if KERAS_3 and tf.__version__.startswith("2.15."):
    raise ImportError(
        f"TensorFlow 2.15 needs Keras 2.15, {KERAS_VERSION} is installed: "
        "pip install keras==2.15.*, or pip install -U tensorflow"
    )
if KERAS > _NEWEST:
    warnings.warn(
        f"Keras {KERAS_VERSION} is installed; tfdpnorm has been tested with up to "
        f"{'.'.join(map(str, _NEWEST))}.",
        stacklevel=2,
    )

if KERAS_3:
    from keras.src.backend import Variable as _Variable
else:
    _Variable = tf.Variable


def raw(value):
    """Returns the `tf.Variable` of a Keras variable, a list for a list or tuple; else the value."""
    if isinstance(value, (list, tuple)):
        return [raw(each) for each in value]
    return value._value if KERAS_3 and isinstance(value, _Variable) else value


def path(variable):
    """Returns the name of a variable with that of its layer: "dense/kernel", or "dense/kernel:0".

    `name` is that under Keras 2, and "kernel" for every layer under Keras 3.
    """
    return variable.path if KERAS_3 and isinstance(variable, _Variable) else variable.name


def await_values(variables):
    """Whether some variables have no value yet: Keras 3 makes them where it infers shapes."""
    return any(value is None for value in raw(list(variables)))


def is_variable(value):
    """Whether a value is a variable of Keras or of TensorFlow."""
    return isinstance(value, (tf.Variable, _Variable))


def trainable_variables(model):
    """Returns the trainable variables of a model as `tf.Variable`s, a list in Keras' order.

    Rejects one of Keras 3 that was made as not trainable and switched on later. What reads it is
    not on the tapes of TensorFlow, by which its readers are known.
    """
    found = raw(list(model.trainable_variables))
    for variable in found:
        if KERAS_3 and not variable.trainable:
            raise ValueError(
                f"Variable {variable.name!r} was created with trainable=False and made trainable "
                "later. Create it with add_weight(..., trainable=True), and freeze it afterwards."
            )
    return found


def weights(model):
    """Returns all weights of a model or layer as `tf.Variable`s, a list in Keras' order."""
    return raw(list(model.weights))


class WatchOfReads:
    """Lists the trainable variables that are read while it is on.

    A `tf.GradientTape` would list them, too. But where two tapes record, TensorFlow makes functions
    of loops, and gradients of gradients of functions, which take longer to trace than all the rest.
    `VariableWatcher` is a private part.

    Attributes:
        variables: List of those of the times that have ended.
    """

    def __init__(self):
        self.variables = []
        self._watcher = None

    def start(self):
        """Begins to watch, again or for the first time."""
        self._watcher = VariableWatcher()
        self._watcher.__enter__()

    def stop(self):
        """Ends it for now."""
        self._watcher.__exit__(None, None, None)
        self.variables += self._watcher.watched_variables()
