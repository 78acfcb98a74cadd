"""The rule of weight-standardised convolutions."""

import numpy as np
import tensorflow as tf

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.arithmetic import MOST_REMOVED, gram_norms, sum_of_squares
from tfdpnorm.gradients.contributions.contribution import (
    Instantiated,
    bias_gradients,
    over_positions,
)
from tfdpnorm.gradients.contributions.convolution_sum import ConvolutionSum
from tfdpnorm.gradients.contributions.row_sums import IN_BLOCKS
from tfdpnorm.gradients.contributions.window import Window, patch_grams
from tfdpnorm.gradients.rules.registry import Rule, register_rule
from tfdpnorm.layers import WeightStandardizedConv2D


class _Standardization:
    """The standardised kernel of a layer, and the way back from its gradient.

    The convolution is with gain * u, u = (w - mean) * scale. With G the gradient with respect to
    the kernel that is convolved with, a filter at a time, the gain's is u . G (`by_gain`), and that
    of w is `pulled_back(G)`.

    Attributes:
        unit: u, of the kernel's shape.
        scale: [filters], gain * scale.
        free: [filters], 1 where the variance is above its floor, so that the scale depends on w.
    """

    def __init__(self, layer, dtype):
        kernel = tf.cast(tf.convert_to_tensor(layer.kernel), dtype)
        self.gain = tf.cast(tf.convert_to_tensor(layer.gain), dtype)
        mean, variance = tf.nn.moments(kernel, [0, 1, 2])
        spread = variance * tf.cast(kernel.shape[:3].num_elements(), dtype)
        scale = tf.math.rsqrt(tf.maximum(spread, layer.weight_epsilon))
        self.unit = (kernel - mean) * scale
        self.scale = self.gain * scale
        self.free = tf.cast(spread >= layer.weight_epsilon, dtype)

    def pulled_back(self, gradients):
        """From gradients of gain * u to those of w: [..., *kernel.shape], both."""
        unit, scale, free = (
            tf.cast(x, gradients.dtype) for x in (self.unit, self.scale, self.free)
        )
        scaled = gradients * scale
        axes = [-4, -3, -2]
        along = tf.reduce_sum(scaled * unit, axis=axes, keepdims=True) * free
        return scaled - tf.reduce_mean(scaled, axis=axes, keepdims=True) - along * unit

    def by_gain(self, images, convolved, b, window):
        """The gradients of each row by the gain, [rows, filters]: u . G = sum b * (u convolved).

        `convolved`, [rows, *counts, filters], is gain times that, before the bias is added: norms
        depend on this number, and a bias would take digits from it. Where a gain is zero, the
        `images`, [rows, *sizes, channels], are convolved again.
        """

        def from_outputs():
            return over_positions(b * convolved) / self.gain

        def convolved_again():
            return over_positions(b * window.convolved(images, self.unit))

        return tf.cond(tf.reduce_any(tf.abs(self.gain) < 1e-12), convolved_again, from_outputs)


class StandardizedConvolutionSum(ConvolutionSum):
    """A `ConvolutionSum` whose gradients are pulled back through the standardisation.

    Of the scaled gradient G' = scale G of a filter it takes two directions, the mean and u, which
    are at right angles: ||g||^2 = ||G'||^2 - (1 . G')^2 / n - (u . G')^2. `by_gain`, [rows,
    filters], is u . G.
    """

    def __init__(self, images, b, window, standardization, by_gain):
        super().__init__(images, b, window, standardization.unit.shape)
        self._standardization = standardization
        self._by_gain = by_gain

    def merged(self, other):
        both = super().merged(other)
        if isinstance(both, StandardizedConvolutionSum):
            both._by_gain = self._by_gain + other._by_gain
        return both

    def grouped(self, count):
        found = super().grouped(count)
        found._by_gain = Instantiated(self._by_gain).grouped(count).instantiated()
        return found

    def weighted_sum(self, factors, finite, sums=IN_BLOCKS):
        # What is pulled back may be longer than what is left of it, and so may its rounding.
        return super().weighted_sum(factors, finite, sums.of_longer())

    def _finished(self, gradients):
        return self._standardization.pulled_back(gradients)

    def _measures(self, gradients, place=None):
        axes = [-4, -3, -2]
        unit = self._standardization.unit
        unit = tf.cast(unit if place is None else unit[place], gradients.dtype)
        # u . G of the G that is added up: `by_gain` has roundings of its own, which patches that
        # cancel in G leave in it.
        sums = [tf.reduce_sum(x, axis=axes) for x in (gradients, gradients * unit)]
        return tf.stack([sum_of_squares(gradients, axis=axes), *sums], axis=-2)

    def _norms_from(self, measures):
        squares, along_ones, along_unit = tf.unstack(measures, axis=1)
        scale = self._standardization.scale
        whole = tf.reduce_sum(squares * tf.square(scale), axis=1)
        rest = tf.maximum(whole - self._removed(along_ones, along_unit), 0.0)
        # The difference may round to too little, as in `gram_norms`: `whole`, what is removed, and
        # u itself come from sums over the n entries of a filter, the second of them squared.
        n = self._shape[:-1].num_elements()
        rest += (7 * n + 16) * np.finfo(whole.dtype.as_numpy_dtype).eps / 2 * whole
        return tf.maximum(rest, whole / MOST_REMOVED)

    def _removed(self, along_ones, along_unit):
        """[rows], what is taken out of ||G'||^2, from (1 . G) and (u . G), [rows, filters]."""
        scale, n = self._standardization.scale, self._shape[:-1].num_elements()
        along_ones, along_unit = along_ones * scale, along_unit * scale * self._standardization.free
        return tf.reduce_sum(tf.square(along_ones) / n + tf.square(along_unit), axis=1)

    def _gram_norms(self):
        ((images, b),) = self._calls
        positions = b.shape[1:-1].num_elements()
        b = tf.reshape(b, [-1, positions, b.shape[-1]])
        # The sum over a patch is a convolution of the sum over channels with ones.
        one_channel = tf.reduce_sum(images, axis=-1, keepdims=True)
        kernel = tf.ones([*self._shape[:-2], 1, 1], b.dtype)
        sums = tf.reshape(self._window.convolved(one_channel, kernel), [-1, 1, positions])
        along_ones = tf.squeeze(tf.matmul(sums, b), 1)
        b *= self._standardization.scale
        grams = patch_grams(images, self._window), tf.matmul(b, b, transpose_b=True)
        # Sums over a patch and over the positions are squared in the removed part.
        terms = 4 * (self._shape[:-1].num_elements() + positions)
        removed = self._removed(along_ones, self._by_gain)
        return gram_norms(*grams, self._roundings, removed, terms)


@register_rule(WeightStandardizedConv2D)
class WeightStandardizedRule(Rule):
    """A convolution with a function of its weights: see `_Standardization`."""

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        del call, args, kwargs
        kernel = layer.standardized_kernel()
        convolved = z = Window.of(layer).convolved(inputs, kernel)
        if layer.use_bias:
            z = tf.nn.bias_add(z, layer.bias)
        z = watch(z)
        return z if layer.activation is None else layer.activation(z), (inputs, convolved)

    def contributions(self, layer, remembered, gradients):
        images, convolved, b = map(widened, (*remembered, *gradients))
        window, standardization = Window.of(layer), _Standardization(layer, b.dtype)
        by_gain = standardization.by_gain(images, convolved, b, window)
        kernel = StandardizedConvolutionSum(images, b, window, standardization, by_gain)
        found = [(layer.kernel, kernel), (layer.gain, Instantiated(by_gain))]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found
