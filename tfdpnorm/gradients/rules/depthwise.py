"""The rules of depthwise convolutions, alone and before a pointwise one."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients.contributions.broadcast import bias_gradients
from tfdpnorm.gradients.contributions.contribution import OuterSum
from tfdpnorm.gradients.contributions.depthwise import depthwise_convolution, depthwise_gradients
from tfdpnorm.gradients.contributions.positions import flat_positions
from tfdpnorm.gradients.contributions.window import Window
from tfdpnorm.gradients.rules.before_activation import BeforeActivationRule
from tfdpnorm.gradients.rules.registry import Rule, register_rule


@register_rule(keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)
class DepthwiseRule(BeforeActivationRule):
    """Each channel has few weights, so that gradients are small beside the activations."""

    def applies(self, layer):
        return layer.data_format == "channels_last"

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        kernel = layer.depthwise_kernel
        found = [(kernel, depthwise_gradients(remembered, b, Window.of(layer), kernel.shape))]
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
        depthwise = depthwise_convolution(inputs, layer.depthwise_kernel, Window.of(layer))
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
            (depthwise, depthwise_gradients(inputs, b_between, window, depthwise.shape)),
            (pointwise, OuterSum(*positions, pointwise.shape)),
        ]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found
