"""The rule of transposed convolutions."""

from tensorflow import keras

from tfdpnorm.gradients.contributions.convolution_sum import ConvolutionSum
from tfdpnorm.gradients.rules.convolution import bias_gradients, window_of
from tfdpnorm.gradients.rules.dense import without_activation
from tfdpnorm.gradients.rules.registry import Rule, register_rule


@register_rule(
    keras.layers.Conv1DTranspose, keras.layers.Conv2DTranspose, keras.layers.Conv3DTranspose
)
class TransposedConvolutionRule(Rule):
    """A convolution the other way: to its kernel, outputs are inputs and inputs are outputs."""

    def applies(self, layer):
        return layer.data_format == "channels_last"

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        z, activation = without_activation(layer, call, inputs, *args, **kwargs)
        return activation(watch(z)), inputs

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        window = window_of(layer)
        if window.rank == 3:
            window = window._replace(dilation_rate=(1, 1, 1))  # Keras ignores it, too
        found = [(layer.kernel, ConvolutionSum(b, remembered, window, layer.kernel.shape))]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found
