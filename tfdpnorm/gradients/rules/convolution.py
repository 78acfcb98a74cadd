"""The rule of convolutions."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients.rules.contributions import Instantiated, OuterSum, widened
from tfdpnorm.gradients.rules.convolution_sum import ConvolutionSum
from tfdpnorm.gradients.rules.dense import without_activation
from tfdpnorm.gradients.rules.patches import Window
from tfdpnorm.gradients.rules.positions import over_positions
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
        window = window_of(layer)
        if set(window.kernel_size) == {1}:
            kernel = _pointwise(remembered, b, window, layer.kernel.shape)
        else:
            kernel = ConvolutionSum(remembered, b, window, layer.kernel.shape)
        found = [(layer.kernel, kernel)]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found


def _pointwise(images, b, window, shape):
    """A kernel of a single place is a dense layer on the pixels that it meets."""
    images = images[(slice(None), *(slice(None, None, stride) for stride in window.strides))]
    a, b = (tf.reshape(x, [tf.shape(x)[0], _positions(x), x.shape[-1]]) for x in (images, b))
    return OuterSum(a, b, shape)


def _positions(x):
    count = x.shape[1:-1].num_elements()
    return -1 if count is None else count


def window_of(layer):
    """The `Window` of a convolutional Keras layer."""
    return Window(layer.kernel_size, layer.strides, layer.dilation_rate, layer.padding)


def bias_gradients(b):
    """Gradients of a bias, from those of the outputs, [rows, *positions, filters]."""
    return Instantiated(over_positions(widened(b)))
