"""Functions of weights and of noisy numbers: regularisers, and shrinkage."""

import tensorflow as tf

from tfdpnorm.keras_compat.variables import raw


def regularization_gradients(model, variables):
    """Returns the gradients of a model's regularisation losses, or None if it has none.

    They depend on the weights alone, so that they need neither clipping nor noise. They are a list
    like `variables`, with None where no regulariser reads a variable.
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(raw(variables))
        losses = model.losses
        if not losses:
            return None
        total = tf.add_n(losses)
    return tape.gradient(total, raw(variables))


def added_gradients(gradients, others):
    """Adds two lists of gradients; None stands for one that does not exist."""
    return [
        o if g is None else g if o is None else g + tf.cast(o, g.dtype)
        for g, o in zip(gradients, others, strict=True)
    ]


_FEWEST = 3  # numbers in a vector that shrinking can improve


def shrunk(noised, stddev):
    """A noisy vector with less expected error: max(0, 1 - (d - 2) s^2 / |x|^2) x; x for d < 3.

    For x = theta + s N(0, I) of d >= 3 numbers, its expected squared distance from theta is smaller
    than that of x, whatever theta is (James and Stein 1961, "Estimation with quadratic loss";
    Baranchik 1964 for the 0). Where x is little but noise it is close to 0.

    Privacy:
        Post-processing: a function of the noisy vector and of the noise's standard deviation s,
        which is public.
    """
    size = noised.shape.num_elements()
    if size < _FEWEST:
        return noised
    of_noise = (size - 2) * stddev**2
    share = tf.math.divide_no_nan(tf.cast(of_noise, noised.dtype), tf.reduce_sum(tf.square(noised)))
    return tf.maximum(1 - share, 0) * noised
