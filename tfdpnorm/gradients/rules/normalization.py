"""The rules of normalisation layers: a scale and an offset per channel."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.contribution import Instantiated, over_positions, size
from tfdpnorm.gradients.rules.registry import Rule, register_rule
from tfdpnorm.keras_compat.devices_and_precision import compiled
from tfdpnorm.keras_compat.exchange import exchanged
from tfdpnorm.keras_compat.layers import axes_of
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
        return not isinstance(layer, FrozenBatchNormalization) or len(axes_of(layer)) == 1

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        normalized = _without_scale_and_offset(layer, call, inputs, *args, **kwargs)
        axes = axes_of(layer)
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


def _without_scale_and_offset(layer, call, inputs, *args, **kwargs):
    """The layer's output without its scale and offset."""
    if isinstance(layer, _HAVE_NORMALIZED):
        return layer.normalized(inputs)
    if isinstance(layer, keras.layers.GroupNormalization):
        off = {"scale": False, "center": False}
    else:  # Keras' LayerNormalization reads the variables, not the switches.
        off = {"gamma": None, "beta": None}
    with exchanged(layer, **off):
        return call(inputs, *args, **kwargs)


class _GroupNormalized:
    """One run of a group normalisation over [rows, *positions, channels].

    y = gamma x^ + beta with x^ = r (x - mean), r = 1 / sqrt(variance + epsilon), moments over all
    positions and the n / positions channels of a group. With b = dloss/dy, the sums over positions
    S1 = sum b and S2 = sum b (x - mean) give everything: dloss/dbeta = S1, dloss/dgamma = r S2, and

        dloss/dx = r (gamma b - sum_g(gamma S1) / n - (x - mean) r^2 sum_g(gamma S2) / n)

    where sum_g adds up the channels of a group.

    Reference:
        Wu and He (2018), Equations 1 to 3.
    """

    def __init__(self, layer):
        self._layer = layer
        self._sums = {}

    def __call__(self, inputs):
        """Returns what the layer gives, in float32 (float64 for float64 inputs)."""
        dtype, channels = widened(inputs).dtype, inputs.shape[-1]
        layer = self._layer
        # Tensors: tf.custom_gradient takes no variables.
        gamma, beta = tf.ones([channels], dtype), tf.zeros([channels], dtype)
        if layer.scale:
            gamma = tf.cast(tf.convert_to_tensor(layer.gamma), dtype)
        if layer.center:
            beta = tf.cast(tf.convert_to_tensor(layer.beta), dtype)
        groups = channels if layer.groups == -1 else layer.groups
        # XLA would compile again for each size of images.
        known = inputs.shape[1:].is_fully_defined()
        normalize, differentiate, self._position_sums = _COMPILED if known else _AS_THEY_ARE

        @tf.custom_gradient
        def normalized(x):
            outputs, self._centred, self._rsqrt = normalize(x, gamma, beta, groups, layer.epsilon)

            def backward(b):
                gradient, *self._sums[b.ref()] = differentiate(
                    b, self._centred, self._rsqrt, gamma, groups
                )
                return tf.cast(gradient, x.dtype)

            return outputs, backward

        return normalized(inputs)

    def parameter_gradients(self, b):
        """The gradients of each row by gamma and beta, [rows, channels] each."""
        # The backward pass may have them.
        if b.ref() not in self._sums:
            self._sums[b.ref()] = self._position_sums(b, self._centred)
        s1, s2 = self._sums[b.ref()]
        return self._rsqrt * s2, s1


def _normalized(x, gamma, beta, groups, epsilon):
    """The outputs, what is left of x without the mean, and r, [rows, channels]."""
    x = widened(x)
    count = _count(x, groups)
    mean = _of_groups(over_positions(x), groups) / count
    centred = x - _per_channel(mean, x)
    variance = _of_groups(over_positions(tf.square(centred)), groups) / count
    rsqrt = tf.math.rsqrt(variance + epsilon)
    return centred * _per_channel(rsqrt * gamma, x) + beta, centred, rsqrt


def _differentiated(b, centred, rsqrt, gamma, groups):
    """The gradient with respect to the inputs, S1 and S2."""
    b = widened(b)
    s1, s2 = _sums_over_positions(b, centred)
    count = _count(b, groups)
    offset = rsqrt * _of_groups(gamma * s1, groups) / count
    slope = rsqrt**3 * _of_groups(gamma * s2, groups) / count
    by_b, by_centred, offset = (_per_channel(f, b) for f in (rsqrt * gamma, slope, offset))
    return b * by_b - centred * by_centred - offset, s1, s2


def _sums_over_positions(b, centred):
    """S1 and S2, [rows, channels] each."""
    b = widened(b)
    return over_positions(b), over_positions(b * centred)


_AS_THEY_ARE = _normalized, _differentiated, _sums_over_positions
_COMPILED = tuple(map(compiled, _AS_THEY_ARE))


def _count(x, groups):
    """How many numbers a group of a row has."""
    # The static number of positions where there is one.
    positions = x.shape[1:-1].num_elements()
    if positions is None:
        positions = tf.reduce_prod(tf.shape(x)[1:-1])
    return tf.cast(positions * (x.shape[-1] // groups), x.dtype)


def _per_channel(factors, x):
    """[rows, channels] as a factor of x."""
    return tf.reshape(factors, [-1, *[1] * (x.shape.rank - 2), x.shape[-1]])


def _of_groups(x, groups):
    """The sum over the channels of a group, for each of its channels: [rows, channels]."""
    channels = x.shape[-1]
    grouped = tf.reshape(x, [-1, groups, channels // groups])
    total = tf.reduce_sum(grouped, axis=2, keepdims=True)
    repeated = tf.broadcast_to(total, [size(grouped, 0), *grouped.shape[1:]])
    return tf.reshape(repeated, [-1, channels])


@register_rule(keras.layers.GroupNormalization)
class GroupNormalizationRule(ScaleAndOffsetRule):
    """The rule of `ScaleAndOffsetRule`, with the layer run by `_GroupNormalized`.

    Keras weights the moments by a tensor of ones and leaves the backward pass to automatic
    differentiation: more passes over the activations than the convolutions beside them can hide.
    """

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        masked = args or kwargs.get("mask") is not None
        channels_last = layer.axis % inputs.shape.rank == inputs.shape.rank - 1
        if masked or not channels_last:
            return super().forward(layer, call, watch, inputs, *args, **kwargs)
        normalized = _GroupNormalized(layer)
        return watch(tf.cast(normalized(inputs), inputs.dtype)), normalized

    def contributions(self, layer, remembered, gradients):
        if not isinstance(remembered, _GroupNormalized):
            return super().contributions(layer, remembered, gradients)
        gamma, beta = remembered.parameter_gradients(gradients[0])
        found = []
        if layer.scale:
            found.append((layer.gamma, Instantiated(gamma)))
        if layer.center:
            found.append((layer.beta, Instantiated(beta)))
        return found
