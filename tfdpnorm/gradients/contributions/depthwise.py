"""Per-example gradients of depthwise convolutions in one or two dimensions."""

import tensorflow as tf

from tfdpnorm.gradients.contributions.arithmetic import widened
from tfdpnorm.gradients.contributions.contribution import Instantiated


def depthwise_gradients(images, b, window, kernel_shape):
    """The contribution of a depthwise kernel.

    To a depthwise convolution rows are channels: one ordinary filter gradient, of a single image
    that has the channels of all rows, gives the gradients of all rows apart.

    Args:
        images: [rows, *sizes, channels].
        b: [rows, *counts, channels * multiplier], gradients of the outputs.
        window: `Window` of the convolution.
        kernel_shape: [*kernel_size, channels, multiplier].
    """
    rank, rows = window.rank, tf.shape(images)[0]
    channels, multiplier = kernel_shape[-2:]

    def as_one_image(x):
        x = tf.transpose(widened(x), [*range(1, rank + 1), 0, rank + 1])
        return tf.reshape(x, tf.concat([[1], tf.shape(x)[:rank], [rows * x.shape[-1]]], 0))

    images, b = as_one_image(images), as_one_image(b)
    # The values do not matter, and in a graph the forward convolution is pruned.
    kernel = tf.zeros([*window.kernel_size, rows * channels, multiplier], images.dtype)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(kernel)
        outputs = depthwise_convolution(images, kernel, window)
    gradients = tape.gradient(outputs, kernel, output_gradients=b)
    gradients = tf.reshape(gradients, [*window.kernel_size, rows, channels, multiplier])
    return Instantiated(tf.transpose(gradients, [rank, *range(rank), rank + 1, rank + 2]))


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
