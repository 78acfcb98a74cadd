"""The rule of transposed convolutions."""

from tensorflow import keras

from tfdpnorm.gradients.contributions.broadcast import bias_gradients
from tfdpnorm.gradients.contributions.convolution_sum import ConvolutionSum
from tfdpnorm.gradients.contributions.window import Window
from tfdpnorm.gradients.rules.before_activation import BeforeActivationRule
from tfdpnorm.gradients.rules.registry import register_rule


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
        if window.rank == 3:
            window = window._replace(dilation_rate=(1, 1, 1))  # Keras ignores it, too
        found = [(layer.kernel, ConvolutionSum(b, remembered, window, layer.kernel.shape))]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found
