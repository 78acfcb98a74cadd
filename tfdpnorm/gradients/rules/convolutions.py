"""The rules of convolutions: ordinary, transposed, in groups, depthwise and separable."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.contribution import (
    BlockOuterSum,
    Instantiated,
    OuterSum,
    bias_gradients,
    flat_positions,
)
from tfdpnorm.gradients.contributions.convolution_sum import ConvolutionSum
from tfdpnorm.gradients.contributions.window import Window, patches
from tfdpnorm.gradients.refusals import refusal_of_engine
from tfdpnorm.gradients.rules.registry import BeforeActivationRule, Rule, register_rule
from tfdpnorm.keras_compat.layers import depthwise_kernel, ignores_dilation


@register_rule(keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
class ConvolutionRule(BeforeActivationRule):
    """A convolution is a dense layer on patches: positions are the places of the kernel."""

    def applies(self, layer):
        return layer.groups == 1 and layer.data_format == "channels_last"

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        kernel = _kernel_gradients(remembered, b, Window.of(layer), layer.kernel.shape)
        found = [(layer.kernel, kernel)]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found


def _kernel_gradients(images, b, window, shape):
    extra = images.shape[1 : images.shape.rank - window.rank - 1]
    if extra.rank:
        # Further batch axes: each row has several images.
        images, b = (tf.reshape(x, [-1, *x.shape[-window.rank - 1 :]]) for x in (images, b))
        return _kernel_gradients(images, b, window, shape).grouped(extra.num_elements())
    if set(window.kernel_size) == {1}:
        # A kernel of a single place is a dense layer on the pixels under it.
        under = images[(slice(None), *(slice(None, None, stride) for stride in window.strides))]
        return OuterSum(flat_positions(under), flat_positions(b), shape)
    return ConvolutionSum(images, b, window, shape)


@register_rule(
    keras.layers.Conv1DTranspose, keras.layers.Conv2DTranspose, keras.layers.Conv3DTranspose
)
class TransposedConvolutionRule(BeforeActivationRule):
    """A convolution the other way: to its kernel, outputs are inputs and inputs are outputs."""

    def applies(self, layer):
        return layer.data_format == "channels_last"

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        window = Window.of(layer)
        if ignores_dilation(layer):
            window = window._replace(dilation_rate=(1,) * window.rank)
        found = [(layer.kernel, ConvolutionSum(b, remembered, window, layer.kernel.shape))]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found


@register_rule(keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
class GroupedConvolutionRule(BeforeActivationRule):
    """Groups are blocks; groups of a single channel make a depthwise convolution."""

    def applies(self, layer):
        return layer.groups > 1 and layer.data_format == "channels_last"

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        if inputs.shape.rank != layer.rank + 2 or not inputs.shape[1:].is_fully_defined():
            raise refusal_of_engine(
                f"Expected an input with {layer.rank} known sizes in the grouped convolution "
                f"{layer.name!r}, got shape {tuple(inputs.shape)}",
                'Give the model\'s input its full shape, or use engine="per_example".',
            )
        return super().forward(layer, call, watch, inputs, *args, **kwargs)

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        found = [
            (layer.kernel, _kernel_gradients_of_groups(layer, widened(remembered), widened(b)))
        ]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found


def _kernel_gradients_of_groups(layer, images, b):
    window, shape, groups = Window.of(layer), layer.kernel.shape, layer.groups
    channels, filters = shape[-2], shape[-1] // groups
    if channels == 1 and window.rank < 3:
        # The filters of a depthwise convolution are ordered by channel, too.
        by_channel = [*window.kernel_size, groups, filters]
        gradients = _depthwise_gradients(images, b, window, by_channel).instantiated()
        return Instantiated(tf.reshape(gradients, [-1, *shape]))
    places, positions = shape[:-2].num_elements(), b.shape[1:-1].num_elements()
    a = tf.reshape(patches(images, window), [-1, places, groups, channels, positions])
    a = tf.transpose(a, [0, 2, 4, 1, 3])
    a = tf.reshape(a, [-1, groups, positions, places * channels])
    b = tf.transpose(tf.reshape(b, [-1, positions, groups, filters]), [0, 2, 1, 3])
    return BlockOuterSum(a, b, [groups, places * channels, filters], [1, 0, 2], shape)


# --- depthwise convolutions ---


@register_rule(keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)
class DepthwiseRule(BeforeActivationRule):
    """Each channel has few weights, so that gradients are small compared with the activations."""

    def applies(self, layer):
        return _is_one_operation(layer)

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        kernel = depthwise_kernel(layer)
        found = [(kernel, _depthwise_gradients(remembered, b, Window.of(layer), kernel.shape))]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found


@register_rule(keras.layers.SeparableConv1D, keras.layers.SeparableConv2D)
class SeparableRule(Rule):
    """A depthwise convolution, whose output is watched as well, and a dense layer on it."""

    def applies(self, layer):
        return _is_one_operation(layer)

    def forward(self, layer, call, watch, inputs):
        # Keras runs both convolutions in one op, which does not show what is between them.
        depthwise = _depthwise_convolution(inputs, layer.depthwise_kernel, Window.of(layer))
        between = watch(depthwise)
        z = tf.nn.convolution(between, layer.pointwise_kernel)
        if layer.use_bias:
            z = tf.nn.bias_add(z, layer.bias)
        return layer.activation(watch(z)), (inputs, between)

    def contributions(self, layer, remembered, gradients):
        inputs, between = remembered
        b_between, b = gradients
        window = Window.of(layer)
        depthwise, pointwise = layer.depthwise_kernel, layer.pointwise_kernel
        positions = map(flat_positions, (between, b))
        found = [
            (depthwise, _depthwise_gradients(inputs, b_between, window, depthwise.shape)),
            (pointwise, OuterSum(*positions, pointwise.shape)),
        ]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found


def _is_one_operation(layer):
    """Whether TensorFlow has the convolution; Keras 3 runs dilated strides in another way."""
    both = max(layer.strides) > 1 and max(layer.dilation_rate) > 1
    return layer.data_format == "channels_last" and not both


# Up to here TensorFlow's filter gradient is quick, if the images are no smaller than the kernel.
# Otherwise it takes up to a hundred times as long as sums over the places of the kernel.
_QUICK_KERNEL_SIZE = 3


def _depthwise_gradients(images, b, window, kernel_shape):
    """The contribution of a depthwise kernel of shape [*kernel_size, channels, multiplier].

    `images` are [rows, *sizes, channels]; b, the gradients of the outputs, is [rows, *counts,
    channels * multiplier].
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
        outputs = _depthwise_convolution(images, kernel, window)
    gradients = tape.gradient(outputs, kernel, output_gradients=b)
    gradients = tf.reshape(gradients, [*window.kernel_size, rows, channels, multiplier])
    return tf.transpose(gradients, [rank, *range(rank), rank + 1, rank + 2])


def _depthwise_convolution(images, kernel, window):
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
