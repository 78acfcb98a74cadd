"""The rule of convolutions."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients.contributions.convolution_sum import ConvolutionSum
from tfdpnorm.gradients.contributions.outer_sum import Instantiated, OuterSum, widened
from tfdpnorm.gradients.contributions.patches import Window
from tfdpnorm.gradients.contributions.positions import flat_positions, over_positions
from tfdpnorm.gradients.rules.dense import without_activation
from tfdpnorm.gradients.rules.registry import Rule, register_rule


@register_rule(keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
class ConvolutionRule(Rule):
    """A convolution is a dense layer on patches: positions are the places of the kernel."""

    def applies(self, layer):
        return layer.groups == 1 and layer.data_format == "channels_last"

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        z, activation = without_activation(layer, call, inputs, *args, **kwargs)
        return activation(watch(z)), inputs

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        kernel = _kernel_gradients(remembered, b, window_of(layer), layer.kernel.shape)
        found = [(layer.kernel, kernel)]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found


def _kernel_gradients(images, b, window, shape):
    extra = images.shape[1 : images.shape.rank - window.rank - 1]
    if extra.rank:
        # Further batch axes: so many images belong to each row.
        images, b = (tf.reshape(x, [-1, *x.shape[-window.rank - 1 :]]) for x in (images, b))
        return _kernel_gradients(images, b, window, shape).grouped(extra.num_elements())
    if set(window.kernel_size) == {1}:
        # A kernel of a single place is a dense layer on the pixels that it meets.
        met = images[(slice(None), *(slice(None, None, stride) for stride in window.strides))]
        return OuterSum(flat_positions(met), flat_positions(b), shape)
    return ConvolutionSum(images, b, window, shape)


def window_of(layer):
    """The `Window` of a convolutional Keras layer."""
    return Window(layer.kernel_size, layer.strides, layer.dilation_rate, layer.padding)


def bias_gradients(b):
    """Gradients of a bias, from those of the outputs, [rows, *positions, filters]."""
    return Instantiated(over_positions(widened(b)))
