"""Sums over what a weight was broadcast over."""

import tensorflow as tf

from tfdpnorm.gradients.contributions.outer_sum import Instantiated, widened


def summed_to(values, shape):
    """The contribution of a variable that was broadcast to the shape of `values`.

    Args:
        values: [rows, ...], the gradient by each of the places of the variable.
        shape: Shape of the variable, which has no axis of rows.
    """
    added = values.shape.rank - len(shape)
    stretched = [added + i for i, size in enumerate(shape) if size == 1]
    summed = tf.reduce_sum(widened(values), axis=[*range(1, added), *stretched])
    return Instantiated(tf.reshape(summed, [-1, *shape]))
