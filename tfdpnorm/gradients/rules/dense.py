"""The rule of dense layers."""

from tensorflow import keras

from tfdpnorm.gradients.contributions.broadcast import bias_gradients
from tfdpnorm.gradients.contributions.contribution import OuterSum
from tfdpnorm.gradients.contributions.positions import flat_positions
from tfdpnorm.gradients.rules.before_activation import BeforeActivationRule
from tfdpnorm.gradients.rules.registry import register_rule


@register_rule(keras.layers.Dense)
class DenseRule(BeforeActivationRule):
    """z = a W + bias: the kernel's gradient is sum_t a_t b_t^T, the bias's sum_t b_t."""

    def contributions(self, layer, remembered, gradients):
        a, b = remembered, gradients[0]
        if a.shape.rank > 2:
            a, b = flat_positions(a), flat_positions(b)
        found = [(layer.kernel, OuterSum(a, b, layer.kernel.shape))]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found
