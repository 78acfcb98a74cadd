"""The variables of a Keras optimizer, and optimizers that are not plain.

Private parts: `_name`, `_create_all_weights` and `_hyper` of legacy optimizers, `_learning_rate` of
the others. Publicly a learning rate can be read and set, but its variable cannot be saved.
tensorflow-privacy marks its optimizers by `_was_dp_gradients_called` alone: it makes a class for
each.
"""

import tensorflow as tf
from tensorflow import keras


def make_optimizer_variables(optimizer, variables):
    """Makes what an optimizer keeps of each variable, unless it has been made.

    Keras would do so within the first trace of the training step. TensorFlow traces a function
    again that made variables, and the step takes longer to trace than any other.

    Args:
        optimizer: A Keras optimizer, a legacy one included.
        variables: All that it will update.
    """
    # In scopes of the names that Keras gives.
    if hasattr(optimizer, "build"):
        with tf.name_scope(optimizer.name):
            optimizer.build(variables)
    else:
        with tf.name_scope(optimizer._name):
            optimizer._create_all_weights(variables)


def optimizer_variables(optimizer):
    """Returns the list of an optimizer's variables, without those of `rate_variables`.

    A method of legacy optimizers, of the others a list that can also be called.
    """
    return list(optimizer.variables())


def rate_variables(optimizer):
    """Returns the list of variables that hold the learning rate and other settings, in fixed order.

    Keras 2 keeps them apart from the optimizer's variables. Empty where a schedule gives the rate.
    """
    rates = getattr(optimizer, "_hyper", {"": getattr(optimizer, "_learning_rate", None)})
    return [rates[name] for name in sorted(rates) if isinstance(rates[name], tf.Variable)]


def scales_losses(optimizer):
    """Whether an optimizer is Keras' LossScaleOptimizer, whose scale follows the gradients."""
    return isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer)


def is_of_tensorflow_privacy(optimizer):
    """Whether an optimizer is one of tensorflow-privacy's, which clip and noise by themselves."""
    return hasattr(optimizer, "_was_dp_gradients_called")
