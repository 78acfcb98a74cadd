"""The rule of PReLU."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.broadcast import summed_to
from tfdpnorm.gradients.rules.registry import Rule, register_rule


@register_rule(keras.layers.PReLU)
class PReLURule(Rule):
    """y = max(x, 0) + alpha min(x, 0): alpha's gradient is b min(x, 0), summed over shared axes.

    Most often each unit has its own alpha, and the gradients are as large as the activations.
    """

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        return watch(call(inputs, *args, **kwargs)), inputs

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        negative = tf.minimum(widened(remembered), 0.0)
        return [(layer.alpha, summed_to(widened(b) * negative, layer.alpha.shape))]
