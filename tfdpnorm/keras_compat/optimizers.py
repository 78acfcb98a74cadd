"""The variables of a Keras optimizer, and optimizers that are not plain.

Private parts: `_name`, `_create_all_weights`, `_decayed_lr` and `_hyper` of legacy optimizers,
`_learning_rate` of the others, and every other attribute that holds a variable. Publicly a learning
rate can be read and set, but its variable cannot be saved, the rate of a schedule is that of the
update before, and Nadam's `_u_product` is not seen at all.
tensorflow-privacy marks its optimizers by `_was_dp_gradients_called` alone: it makes a class for
each.
"""

from collections.abc import Mapping

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
    """Returns the list of all variables that an optimizer keeps, without those of `rate_variables`.

    First those that it lists, by a method of legacy optimizers, of the others by a list that can
    also be called. Then those that it lists nowhere, such as Nadam's `_u_product`, by the names of
    the attributes that they are found in: of the optimizer, and of the optimizers that it holds.

    Args:
        optimizer: A Keras optimizer whose variables are made.
    """
    found = {v.ref(): v for v in optimizer.variables()}
    rates = {v.ref() for v in rate_variables(optimizer)}
    for variable in _held_variables(optimizer):
        if variable.ref() not in rates:
            found.setdefault(variable.ref(), variable)
    return list(found.values())


def rate_variables(optimizer):
    """Returns the list of variables that hold the learning rate and other settings, in fixed order.

    Keras 2 keeps them apart from the optimizer's variables. Empty where a schedule gives the rate.
    """
    rates = getattr(optimizer, "_hyper", {"": getattr(optimizer, "_learning_rate", None)})
    return [rates[name] for name in sorted(rates) if isinstance(rates[name], tf.Variable)]


def next_learning_rate(optimizer):
    """Returns the learning rate of the update that comes next, a float.

    That of a schedule is a function of the number of updates made. The public `learning_rate` gives
    the one of the update before.

    Args:
        optimizer: A Keras optimizer, a legacy one included.
    """
    if hasattr(optimizer, "_decayed_lr"):
        return float(optimizer._decayed_lr(tf.float32))
    rate = optimizer._learning_rate
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        rate = rate(optimizer.iterations)
    return float(rate)


def scales_losses(optimizer):
    """Whether an optimizer is Keras' LossScaleOptimizer, whose scale follows the gradients."""
    return isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer)


def is_of_tensorflow_privacy(optimizer):
    """Whether an optimizer is one of tensorflow-privacy's, which clip and noise by themselves."""
    return hasattr(optimizer, "_was_dp_gradients_called")


def _held_variables(value, seen=None):
    """Yields the variables in a value, and in what optimizers, lists and dicts it holds."""
    seen = set() if seen is None else seen
    if isinstance(value, tf.Variable):
        yield value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if _has_attributes_of_interest(value):
        value = vars(value)
    if isinstance(value, Mapping):
        value = [value[name] for name in sorted(value, key=str)]
    if isinstance(value, list | tuple | set):
        for each in value:
            yield from _held_variables(each, seen)


def _has_attributes_of_interest(value):
    kinds = (
        keras.optimizers.Optimizer,
        keras.optimizers.legacy.Optimizer,
        keras.optimizers.schedules.LearningRateSchedule,
    )
    return isinstance(value, kinds)
