"""The positions of an image or a sequence, between its rows and its channels."""

import tensorflow as tf

from tfdpnorm.keras_compat.devices_and_precision import has_gpu, in_xla


def over_positions(x):
    """Sums over everything between rows and channels.

    Args:
        x: [rows, *positions, channels], at least [rows, channels].

    Returns:
        [rows, channels].
    """
    if x.shape.rank == 2:
        return x
    flat = flat_positions(x)
    if has_gpu() or in_xla():
        return tf.reduce_sum(flat, axis=1)  # a GPU may round products to TensorFloat-32
    # A product with ones: TensorFlow's sum takes up to three times as long where channels are few.
    ones = tf.ones([size(flat, 0), 1, size(flat, 1)], flat.dtype)
    return tf.squeeze(tf.matmul(ones, flat), 1)


def size(x, axis):
    """The size of an axis: a number where it is known, else a tensor."""
    return tf.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]


def flat_positions(x):
    """[rows, *positions, channels] as [rows, T, channels]."""
    count = x.shape[1:-1].num_elements()
    if count is None:
        count = tf.reduce_prod(tf.shape(x)[1:-1])
    return tf.reshape(x, [size(x, 0), count, x.shape[-1]])
