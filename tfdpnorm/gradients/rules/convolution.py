"""The rule of convolutions."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients.rules.contributions import Instantiated, OuterSum
from tfdpnorm.gradients.rules.dense import without_activation
from tfdpnorm.gradients.rules.registry import Rule, register_rule


@register_rule(keras.layers.Conv2D)
class Conv2DRule(Rule):
    """A convolution is a dense layer on patches: positions are the places of the kernel."""

    def applies(self, layer):
        return layer.groups == 1 and layer.data_format == "channels_last"

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        z, activation = without_activation(layer, call, inputs, *args, **kwargs)
        return activation(watch(z)), inputs

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        positions, filters = b.shape[1] * b.shape[2], b.shape[3]
        b = tf.reshape(b, [-1, positions, filters])
        patches = patches_2d(
            remembered, layer.kernel_size, layer.strides, layer.dilation_rate, layer.padding
        )
        patches = tf.linalg.matrix_transpose(patches)
        found = [(layer.kernel, OuterSum(patches, b, layer.kernel.shape))]
        if layer.use_bias:
            wide = tf.cast(b, tf.float32) if b.dtype.size < 4 else b
            found.append((layer.bias, Instantiated(tf.reduce_sum(wide, axis=1))))
        return found


def patches_2d(images, kernel_size, strides, dilation_rate, padding):
    """The patches under each place of a kernel, positions last.

    Args:
        images: [rows, height, width, channels].
        kernel_size: (height, width).
        strides: Likewise.
        dilation_rate: Likewise.
        padding: "valid" or "same".

    Returns:
        [rows, kernel_height * kernel_width * channels, positions].
    """
    channels = images.shape[3]
    # Channels first: each slice below is then a copy of whole rows of the image, which is an order
    # of magnitude faster than extracting patches when channels are few.
    if channels == 1:
        images = tf.reshape(images, [-1, 1, images.shape[1], images.shape[2]])
    else:
        images = tf.transpose(images, [0, 3, 1, 2])
    sizes, pads = [], [[0, 0], [0, 0]]
    for axis in range(2):
        size, stride = images.shape[2 + axis], strides[axis]
        reach = (kernel_size[axis] - 1) * dilation_rate[axis] + 1
        if padding == "same":
            count = -(-size // stride)
            total = max((count - 1) * stride + reach - size, 0)
            pads.append([total // 2, total - total // 2])
        else:
            count = (size - reach) // stride + 1
            pads.append([0, 0])
        sizes.append(count)
    if padding == "same":
        images = tf.pad(images, pads)
    slices = []
    for i in range(kernel_size[0]):
        for j in range(kernel_size[1]):
            top, left = i * dilation_rate[0], j * dilation_rate[1]
            slices.append(
                images[
                    :,
                    :,
                    top : top + (sizes[0] - 1) * strides[0] + 1 : strides[0],
                    left : left + (sizes[1] - 1) * strides[1] + 1 : strides[1],
                ]
            )
    patches = tf.stack(slices, axis=1)
    places = kernel_size[0] * kernel_size[1]
    return tf.reshape(patches, [-1, places * channels, sizes[0] * sizes[1]])
