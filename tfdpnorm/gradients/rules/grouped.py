"""The rule of convolutions in groups of channels."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.blocks import BlockOuterSum
from tfdpnorm.gradients.contributions.broadcast import bias_gradients
from tfdpnorm.gradients.contributions.contribution import Instantiated
from tfdpnorm.gradients.contributions.depthwise import depthwise_gradients
from tfdpnorm.gradients.contributions.patches import patches
from tfdpnorm.gradients.contributions.window import Window
from tfdpnorm.gradients.refusals import refusal_of_engine
from tfdpnorm.gradients.rules.before_activation import BeforeActivationRule
from tfdpnorm.gradients.rules.registry import register_rule


@register_rule(keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
class GroupedConvolutionRule(BeforeActivationRule):
    """Groups are blocks; groups of a single channel make a depthwise convolution."""

    def applies(self, layer):
        return layer.groups > 1 and layer.data_format == "channels_last"

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        if inputs.shape.rank != layer.rank + 2 or not inputs.shape[1:].is_fully_defined():
            raise refusal_of_engine(
                f"Expected an input with {layer.rank} known sizes in the grouped convolution "
                f"{layer.name!r}, got shape {tuple(inputs.shape)}",
                'Give the model\'s input a full shape, or use engine="per_example".',
            )
        return super().forward(layer, call, watch, inputs, *args, **kwargs)

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        found = [(layer.kernel, _kernel_gradients(layer, widened(remembered), widened(b)))]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found


def _kernel_gradients(layer, images, b):
    window, shape, groups = Window.of(layer), layer.kernel.shape, layer.groups
    channels, filters = shape[-2], shape[-1] // groups
    if channels == 1 and window.rank < 3:
        # The filters of a depthwise convolution are ordered by channel, too.
        by_channel = [*window.kernel_size, groups, filters]
        gradients = depthwise_gradients(images, b, window, by_channel).instantiated()
        return Instantiated(tf.reshape(gradients, [-1, *shape]))
    places, positions = shape[:-2].num_elements(), b.shape[1:-1].num_elements()
    a = tf.reshape(patches(images, window), [-1, places, groups, channels, positions])
    a = tf.transpose(a, [0, 2, 4, 1, 3])
    a = tf.reshape(a, [-1, groups, positions, places * channels])
    b = tf.transpose(tf.reshape(b, [-1, positions, groups, filters]), [0, 2, 1, 3])
    return BlockOuterSum(a, b, [groups, places * channels, filters], [1, 0, 2], shape)
