"""The rule of dense layers."""

from tensorflow import keras

from tfdpnorm.gradients.contributions.outer_sum import Instantiated, OuterSum, widened
from tfdpnorm.gradients.contributions.positions import flat_positions, over_positions
from tfdpnorm.gradients.rules.registry import Rule, register_rule


def without_activation(layer, call, *args, **kwargs):
    """Runs a layer's call without its activation, and returns the output and the activation."""
    activation = layer.activation
    layer.activation = keras.activations.linear
    try:
        return call(*args, **kwargs), activation
    finally:
        layer.activation = activation


@register_rule(keras.layers.Dense)
class DenseRule(Rule):
    """z = a W + bias: the kernel's gradient is sum_t a_t b_t^T, the bias's sum_t b_t."""

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        z, activation = without_activation(layer, call, inputs, *args, **kwargs)
        return activation(watch(z)), inputs

    def contributions(self, layer, remembered, gradients):
        a, b = remembered, gradients[0]
        if a.shape.rank > 2:
            a, b = flat_positions(a), flat_positions(b)
        found = [(layer.kernel, OuterSum(a, b, layer.kernel.shape))]
        if layer.use_bias:
            found.append((layer.bias, Instantiated(over_positions(widened(b)))))
        return found
