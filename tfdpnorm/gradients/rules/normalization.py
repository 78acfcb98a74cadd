"""The rule of normalisation layers: a scale and an offset per channel."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.contribution import Instantiated
from tfdpnorm.gradients.contributions.positions import over_positions
from tfdpnorm.gradients.rules.registry import Rule, register_rule
from tfdpnorm.keras_compat.exchange import exchanged
from tfdpnorm.layers import (
    FrozenBatchNormalization,
    NoisedBatchNormalization,
    PublicBatchNormalization,
)

_HAVE_NORMALIZED = (
    FrozenBatchNormalization,
    NoisedBatchNormalization,
    PublicBatchNormalization,
)


@register_rule(keras.layers.LayerNormalization, *_HAVE_NORMALIZED)
class ScaleAndOffsetRule(Rule):
    """y = gamma x + beta with x the normalised values: dl/dgamma = sum b x, dl/dbeta = sum b."""

    def applies(self, layer):
        # Keras' batch normalisation over several axes has weights of another shape.
        return not isinstance(layer, FrozenBatchNormalization) or len(layer.axis) == 1

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        normalized = _normalized(layer, call, inputs, *args, **kwargs)
        axes = layer.axis if isinstance(layer.axis, (list, tuple)) else [layer.axis]
        axes = [axis % inputs.shape.rank for axis in axes]
        shape = [size if i in axes else 1 for i, size in enumerate(inputs.shape)]
        outputs = normalized
        for variable, combine in ((layer.gamma, tf.multiply), (layer.beta, tf.add)):
            if variable is not None:
                outputs = combine(outputs, tf.cast(tf.reshape(variable, shape), normalized.dtype))
        return watch(tf.cast(outputs, inputs.dtype)), (normalized, axes)

    def contributions(self, layer, remembered, gradients):
        normalized, axes = remembered
        b = widened(gradients[0])
        summed = [i for i in range(1, b.shape.rank) if i not in axes]

        def summed_up(values, variable):
            if summed == list(range(1, b.shape.rank - 1)):
                return Instantiated(over_positions(values))
            total = tf.reduce_sum(values, axis=summed)
            # Keras reshapes, whatever the order of the axes.
            return Instantiated(tf.reshape(total, [-1, *variable.shape]))

        found = []
        if layer.gamma is not None:
            found.append((layer.gamma, summed_up(b * tf.cast(normalized, b.dtype), layer.gamma)))
        if layer.beta is not None:
            found.append((layer.beta, summed_up(b, layer.beta)))
        return found


def _normalized(layer, call, inputs, *args, **kwargs):
    """What the layer gives without its scale and offset."""
    if isinstance(layer, _HAVE_NORMALIZED):
        return layer.normalized(inputs)
    if isinstance(layer, keras.layers.GroupNormalization):
        off = {"scale": False, "center": False}
    else:  # Keras' LayerNormalization reads the variables, not the switches.
        off = {"gamma": None, "beta": None}
    with exchanged(layer, **off):
        return call(inputs, *args, **kwargs)
