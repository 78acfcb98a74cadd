"""The rules of depthwise convolutions, alone and before a pointwise one."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients.contributions.outer_sum import Instantiated, OuterSum, widened
from tfdpnorm.gradients.contributions.positions import flat_positions
from tfdpnorm.gradients.rules.convolution import bias_gradients, window_of
from tfdpnorm.gradients.rules.dense import without_activation
from tfdpnorm.gradients.rules.registry import Rule, register_rule


@register_rule(keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)
class DepthwiseRule(Rule):
    """Each channel has few weights, so that gradients are small beside the activations."""

    def applies(self, layer):
        return layer.data_format == "channels_last"

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        z, activation = without_activation(layer, call, inputs, *args, **kwargs)
        return activation(watch(z)), inputs

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        kernel = layer.depthwise_kernel
        found = [(kernel, depthwise_gradients(remembered, b, window_of(layer), kernel.shape))]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found


@register_rule(keras.layers.SeparableConv1D, keras.layers.SeparableConv2D)
class SeparableRule(Rule):
    """A depthwise convolution, whose output is watched as well, and a dense layer on it."""

    def applies(self, layer):
        return layer.data_format == "channels_last"

    def forward(self, layer, call, watch, inputs):
        # Keras runs both convolutions in one op, which does not show what is between them.
        between = watch(_depthwise(inputs, layer.depthwise_kernel, window_of(layer)))
        z = tf.nn.convolution(between, layer.pointwise_kernel)
        if layer.use_bias:
            z = tf.nn.bias_add(z, layer.bias)
        return layer.activation(watch(z)), (inputs, between)

    def contributions(self, layer, remembered, gradients):
        inputs, between = remembered
        b_between, b = gradients
        depthwise, pointwise = layer.depthwise_kernel, layer.pointwise_kernel
        positions = map(flat_positions, (between, b))
        found = [
            (depthwise, depthwise_gradients(inputs, b_between, window_of(layer), depthwise.shape)),
            (pointwise, OuterSum(*positions, pointwise.shape)),
        ]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found


def depthwise_gradients(images, b, window, kernel_shape):
    """The contribution of a depthwise kernel.

    Rows are channels to a depthwise convolution: one ordinary filter gradient of a single image
    that has the channels of all rows is the gradients of all of them, and no sum.

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
        outputs = _depthwise(images, kernel, window)
    gradients = tape.gradient(outputs, kernel, output_gradients=b)
    gradients = tf.reshape(gradients, [*window.kernel_size, rows, channels, multiplier])
    return Instantiated(tf.transpose(gradients, [rank, *range(rank), rank + 1, rank + 2]))


def _depthwise(images, kernel, window):
    """The depthwise convolution of images, [rows, *sizes, channels], in one or two dimensions."""
    padding = window.padding.upper()
    if padding == "CAUSAL" or (padding == "SAME" and max(window.dilation_rate) > 1):
        # The zeros of these are known without the sizes, which TensorFlow would want for dilations.
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
