"""The rule of convolutions."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients.contributions.broadcast import bias_gradients
from tfdpnorm.gradients.contributions.contribution import OuterSum
from tfdpnorm.gradients.contributions.convolution_sum import ConvolutionSum
from tfdpnorm.gradients.contributions.positions import flat_positions
from tfdpnorm.gradients.contributions.window import Window
from tfdpnorm.gradients.rules.before_activation import BeforeActivationRule
from tfdpnorm.gradients.rules.registry import register_rule


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
