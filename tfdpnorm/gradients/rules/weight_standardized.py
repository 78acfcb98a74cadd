"""The rule of weight-standardised convolutions."""

import tensorflow as tf

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.broadcast import bias_gradients
from tfdpnorm.gradients.contributions.contribution import Instantiated
from tfdpnorm.gradients.contributions.standardized_sum import (
    Standardization,
    StandardizedConvolutionSum,
)
from tfdpnorm.gradients.contributions.window import Window
from tfdpnorm.gradients.rules.registry import Rule, register_rule
from tfdpnorm.layers import WeightStandardizedConv2D


@register_rule(WeightStandardizedConv2D)
class WeightStandardizedRule(Rule):
    """A convolution with a function of its weights: see `Standardization`."""

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        del call, args, kwargs
        kernel = layer.standardized_kernel()
        convolved = z = Window.of(layer).convolved(inputs, kernel)
        if layer.use_bias:
            z = tf.nn.bias_add(z, layer.bias)
        z = watch(z)
        return z if layer.activation is None else layer.activation(z), (inputs, convolved)

    def contributions(self, layer, remembered, gradients):
        images, convolved, b = map(widened, (*remembered, *gradients))
        window, standardization = Window.of(layer), Standardization(layer, b.dtype)
        by_gain = standardization.by_gain(images, convolved, b, window)
        kernel = StandardizedConvolutionSum(images, b, window, standardization, by_gain)
        found = [(layer.kernel, kernel), (layer.gain, Instantiated(by_gain))]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found
