"""Variables as TensorFlow has them, whichever Keras has wrapped them.

`keras.Variable` of Keras 3 is no `tf.Variable`: a tape does not watch it, it has no `ref()`, and
its dtype is a string. Private part of Keras 3: `_value`, the `tf.Variable` behind it, which is what
gradients are taken by, noise is added to and graphs read. Under Keras 2 a variable is its own.
"""

import importlib.metadata

import tensorflow as tf
from tensorflow import keras

KERAS_VERSION = importlib.metadata.version("keras")
KERAS_3 = int(KERAS_VERSION.split(".")[0]) >= 3


def raw(value):
    """Returns the `tf.Variable` of a Keras variable; of a list or tuple of them, a list.

    Args:
        value: A variable of Keras or TensorFlow; or a list or tuple of them. What else there is, is
            returned as it is.
    """
    if isinstance(value, (list, tuple)):
        return [raw(each) for each in value]
    return value._value if KERAS_3 and isinstance(value, keras.Variable) else value


def path(variable):
    """Returns the name of a variable with that of its layer: "dense/kernel", or "dense/kernel:0".

    `name` is that under Keras 2, and "kernel" for every layer under Keras 3.
    """
    return variable.path if KERAS_3 and isinstance(variable, keras.Variable) else variable.name


def await_values(variables):
    """Whether some variables have no value yet: Keras 3 makes them where it infers shapes."""
    return any(value is None for value in raw(list(variables)))


def is_variable(value):
    """Whether a value is a variable of Keras or of TensorFlow."""
    return isinstance(value, tf.Variable) or (KERAS_3 and isinstance(value, keras.Variable))


def trainable_variables(model):
    """Returns the trainable variables of a model as `tf.Variable`s, a list in Keras' order.

    Raises:
        ValueError: for one of Keras 3 that was made as not trainable and switched on later. What
            reads it is not on the tapes of TensorFlow, by which its readers are known.
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
