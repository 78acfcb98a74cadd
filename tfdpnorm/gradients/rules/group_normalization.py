"""The rule of group normalisation."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients.contributions.contribution import Instantiated
from tfdpnorm.gradients.contributions.group_normalized import GroupNormalized
from tfdpnorm.gradients.rules.normalization import ScaleAndOffsetRule
from tfdpnorm.gradients.rules.registry import register_rule


@register_rule(keras.layers.GroupNormalization)
class GroupNormalizationRule(ScaleAndOffsetRule):
    """As for the other normalisation layers, but the layer is run by `GroupNormalized`.

    Keras weights the moments by a tensor of ones and leaves the backward pass to automatic
    differentiation: more passes over the activations than the convolutions beside them can hide.
    """

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        masked = args or kwargs.get("mask") is not None
        channels_last = layer.axis % inputs.shape.rank == inputs.shape.rank - 1
        if masked or not channels_last:
            return super().forward(layer, call, watch, inputs, *args, **kwargs)
        normalized = GroupNormalized(layer)
        return watch(tf.cast(normalized(inputs), inputs.dtype)), normalized

    def contributions(self, layer, remembered, gradients):
        if not isinstance(remembered, GroupNormalized):
            return super().contributions(layer, remembered, gradients)
        gamma, beta = remembered.parameter_gradients(gradients[0])
        found = []
        if layer.scale:
            found.append((layer.gamma, Instantiated(gamma)))
        if layer.center:
            found.append((layer.beta, Instantiated(beta)))
        return found
