"""Noised vectors, shrunk by what is known of their noise."""

import tensorflow as tf

_FEWEST = 3  # numbers in a vector that shrinking can improve


def shrunk(noised, stddev):
    """A noised vector with less expected error: max(0, 1 - (d - 2) s^2 / |x|^2) x.

    For x = theta + s N(0, I) of d >= 3 numbers, its expected squared distance from theta is smaller
    than that of x, whatever theta is. Where x is little but noise it is close to 0.

    Privacy:
        Post-processing: a function of the noised vector and of the noise's standard deviation,
        which is public.

    Args:
        noised: Tensor of d numbers.
        stddev: s >= 0, the standard deviation of the noise in each of them.

    Returns:
        Tensor like `noised`; itself for d < 3.

    Reference:
        James and Stein (1961), "Estimation with quadratic loss"; Baranchik (1964) for the 0.
    """
    size = noised.shape.num_elements()
    if size < _FEWEST:
        return noised
    of_noise = (size - 2) * stddev**2
    share = tf.math.divide_no_nan(tf.cast(of_noise, noised.dtype), tf.reduce_sum(tf.square(noised)))
    return tf.maximum(1 - share, 0) * noised
