"""The variables of a Keras optimizer, made before they are needed."""

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
