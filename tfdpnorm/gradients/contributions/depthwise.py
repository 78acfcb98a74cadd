"""Per-example gradients of depthwise convolutions in one or two dimensions."""

import numpy as np
import tensorflow as tf

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.contribution import Instantiated

# Up to here TensorFlow's filter gradient is quick, if the images are no smaller than the kernel.
# Otherwise it takes up to a hundred times as long as sums over the places of the kernel.
_QUICK_KERNEL_SIZE = 3


def depthwise_gradients(images, b, window, kernel_shape):
    """The contribution of a depthwise kernel.

    Args:
        images: [rows, *sizes, channels].
        b: [rows, *counts, channels * multiplier], gradients of the outputs.
        window: `Window` of the convolution.
        kernel_shape: [*kernel_size, channels, multiplier].
    """
    by_place = _is_slow_in_tensorflow(window, images.shape[1:-1])
    gradients = _place_by_place if by_place else _with_rows_as_channels
    return Instantiated(gradients(widened(images), widened(b), window, kernel_shape))


def _is_slow_in_tensorflow(window, sizes):
    if None in sizes:
        return False  # Sums over places need the sizes.
    smaller = any(size < kernel for size, kernel in zip(sizes, window.kernel_size, strict=True))
    return smaller or max(window.kernel_size) > _QUICK_KERNEL_SIZE


def _place_by_place(images, b, window, kernel_shape):
    """[rows, *kernel_shape]: the outputs' gradients times the pixels that a place goes over."""
    images, counts = window.padded(images), b.shape[1:-1]
    channels, multiplier = kernel_shape[-2:]
    b = tf.reshape(b, [-1, *counts, channels, multiplier])
    gradients = []
    for place in np.ndindex(*window.kernel_size):
        products = window.under(images, place, counts)[..., tf.newaxis] * b
        gradients.append(tf.reduce_sum(products, axis=range(1, window.rank + 1)))
    return tf.reshape(tf.stack(gradients, axis=1), [-1, *kernel_shape])


def _with_rows_as_channels(images, b, window, kernel_shape):
    """[rows, *kernel_shape].

    To a depthwise convolution rows are channels: one ordinary filter gradient, of a single image
    that has the channels of all rows, gives the gradients of all rows apart.
    """
    rank, rows = window.rank, tf.shape(images)[0]
    channels, multiplier = kernel_shape[-2:]

    def as_one_image(x):
        x = tf.transpose(x, [*range(1, rank + 1), 0, rank + 1])
        return tf.reshape(x, tf.concat([[1], tf.shape(x)[:rank], [rows * x.shape[-1]]], 0))

    images, b = as_one_image(images), as_one_image(b)
    # The values do not matter, and in a graph the forward convolution is pruned.
    kernel = tf.zeros([*window.kernel_size, rows * channels, multiplier], images.dtype)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(kernel)
        outputs = depthwise_convolution(images, kernel, window)
    gradients = tape.gradient(outputs, kernel, output_gradients=b)
    gradients = tf.reshape(gradients, [*window.kernel_size, rows, channels, multiplier])
    return tf.transpose(gradients, [rank, *range(rank), rank + 1, rank + 2])


def depthwise_convolution(images, kernel, window):
    """Returns the depthwise convolution of images, [rows, *sizes, channels]."""
    padding = window.padding.upper()
    if padding == "CAUSAL" or (padding == "SAME" and max(window.dilation_rate) > 1):
        # Padded here: the zeros do not depend on the sizes, which TensorFlow would want to know.
        totals = [
            (k - 1) * d for k, d in zip(window.kernel_size, window.dilation_rate, strict=True)
        ]
        befores = totals if padding == "CAUSAL" else [total // 2 for total in totals]
        pads = [[before, total - before] for before, total in zip(befores, totals, strict=True)]
        images, padding = tf.pad(images, [[0, 0], *pads, [0, 0]]), "VALID"
    strides, dilations = window.strides, window.dilation_rate
    if window.rank == 1:
        # TensorFlow wants equal strides; along the added axis of one place they change nothing.
        images, kernel = images[:, tf.newaxis], tf.convert_to_tensor(kernel)[tf.newaxis]
        strides, dilations = strides * 2, (1, *dilations)
    outputs = tf.nn.depthwise_conv2d(images, kernel, [1, *strides, 1], padding, dilations=dilations)
    return tf.squeeze(outputs, 1) if window.rank == 1 else outputs
