"""Per-example gradients of weights that are broadcast: sums over the places they stand in."""

import tensorflow as tf

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.contribution import Instantiated
from tfdpnorm.gradients.contributions.positions import over_positions


def bias_gradients(b):
    """The contribution of a bias, from the outputs' gradients b [rows, *positions, channels]."""
    return Instantiated(over_positions(widened(b)))


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
