"""Gradients of weight regularisers."""

import tensorflow as tf


def regularization_loss(model):
    """Returns what a model's regularisers add to its loss, a scalar."""
    return tf.add_n(model.losses) if model.losses else tf.constant(0.0)


def regularization_gradients(model, variables):
    """Returns the gradients of a model's regularisation losses, or None without any.

    They depend on the weights alone, so that they need neither clip nor noise.

    Args:
        model: A Keras model.
        variables: What to differentiate by.

    Returns:
        List of tensors like `variables`, None where no regulariser reads a variable; or None.
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(variables)
        losses = model.losses
        if not losses:
            return None
        total = tf.add_n(losses)
    return tape.gradient(total, variables)


def added_gradients(gradients, others):
    """Adds two lists of gradients; None stands for one that does not exist."""
    return [
        o if g is None else g if o is None else g + tf.cast(o, g.dtype)
        for g, o in zip(gradients, others, strict=True)
    ]
