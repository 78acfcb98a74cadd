"""The variables of a Keras optimizer: made before they are needed, and listed for checkpoints."""

import tensorflow as tf


def make_optimizer_variables(optimizer, variables):
    """Makes what an optimizer keeps of each variable, unless it has been made.

    Keras would do so within the first trace of the training step, and TensorFlow traces anew what
    made variables: the step, which takes longer than any other, twice.

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
    """Returns the list of variables that an optimizer keeps, its learning rates apart."""
    return list(optimizer.variables())


def learning_rate_variables(optimizer):
    """Returns the variables that hold an optimizer's hyperparameters, by name.

    Keras 2 keeps the learning rate apart from the optimizer's variables. One that follows a
    schedule is no variable.
    """
    rates = getattr(optimizer, "_hyper", {"": getattr(optimizer, "_learning_rate", None)})
    return [rates[name] for name in sorted(rates) if isinstance(rates[name], tf.Variable)]
