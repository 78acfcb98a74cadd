"""The rule of layers with variational dropout."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.contribution import (
    Contribution,
    Instantiated,
    OuterSum,
    bias_gradients,
    flat_positions,
    summed_to,
)
from tfdpnorm.gradients.contributions.convolution_sum import ConvolutionSum
from tfdpnorm.gradients.contributions.row_sums import IN_BLOCKS, LONGER, RowSums
from tfdpnorm.gradients.contributions.window import Window
from tfdpnorm.gradients.rules.fallback import FallbackRule
from tfdpnorm.gradients.rules.registry import Rule, register_rule
from tfdpnorm.keras_compat.layers import said_or_by_default
from tfdpnorm.layers import VariationalDropoutConv2D, VariationalDropoutDense


class _Drawn(NamedTuple):
    """The tensors of a call that draws the pre-activations: a, and v = a^2 zeta^2, [rows, ...]."""

    inputs: Any
    variance: Any


@register_rule(VariationalDropoutDense, VariationalDropoutConv2D)
class VariationalDropoutRule(Rule):
    """Weights enter at the mean m = a phi + bias and the variance v = a^2 zeta^2.

    With b_m and b_v the gradients of both, drawn numbers held fixed, the gradient of a zeta^2 is
    G_v = a^2 b_v^T, that of a layer with the inputs a^2. The others follow:

    | variable | zeta^2 | gradient |
    |---|---|---|
    | phi | any of its own | a b_m^T |
    | phi | alpha phi^2 | a b_m^T + 2 alpha phi * G_v |
    | log zeta^2 | of each weight | zeta^2 * G_v |
    | log alpha | of a unit, of a layer | b_v v, summed over the others |

    Calls in testing draw no pre-activations, and take the rule of layers that have none.
    """

    def __init__(self):
        self._otherwise = FallbackRule()

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        training = (args[0] if args else kwargs.get("training")) or False
        if args[:1] == (None,) or kwargs.get("training", False) is None:
            training = said_or_by_default(None)
        if tf.is_tensor(training) or not training:
            return self._otherwise.forward(layer, call, watch, inputs, *args, **kwargs)
        mean, variance = layer.moments(inputs)
        outputs = layer.drawn(watch(mean), watch(variance))
        if layer.activation is not None:
            outputs = layer.activation(outputs)
        return outputs, _Drawn(inputs, variance)

    def contributions(self, layer, remembered, gradients):
        if not isinstance(remembered, _Drawn):
            return self._otherwise.contributions(layer, remembered, gradients)
        b_mean, b_variance = gradients
        found = [(layer.kernel, self._by_kernel(layer, remembered, b_mean, b_variance))]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b_mean)))
        if layer.noise != "learnt":
            return found
        if layer.noise_is_tied:
            by_alpha = widened(b_variance) * widened(remembered.variance)
            variable = layer.noise_log_alpha
            found.append((variable, summed_to(by_alpha, variable.shape)))
        else:
            by_variance = _scaled(layer, remembered.inputs, b_variance, layer.noise_variance())
            found.append((layer.noise_log_variance, by_variance))
        return found

    def _by_kernel(self, layer, remembered, b_mean, b_variance):
        through_mean = _linear(layer, remembered.inputs, b_mean)
        if not layer.noise_is_tied:
            return through_mean
        alpha, phi = tf.exp(layer.log_alpha()), tf.convert_to_tensor(layer.kernel)
        scale = 2 * alpha * tf.cast(phi, alpha.dtype)
        if _is_one_product(layer, remembered.inputs):
            return TiedOuterSum(remembered.inputs, b_mean, b_variance, scale)
        through_variance = _scaled(layer, remembered.inputs, b_variance, scale)
        return Instantiated(through_mean.instantiated() + through_variance.instantiated())


def _linear(layer, inputs, b):
    """The contribution a b^T of a weight that inputs are multiplied by."""
    shape = layer.kernel.shape
    if isinstance(layer, keras.layers.Conv2D):
        images = inputs.shape[1 : inputs.shape.rank - 3]
        if images.rank:
            # Further batch axes: each row has several images.
            inputs, b = (tf.reshape(x, [-1, *x.shape[-3:]]) for x in (inputs, b))
            found = ConvolutionSum(inputs, b, Window.of(layer), shape)
            return found.grouped(images.num_elements())
        return ConvolutionSum(inputs, b, Window.of(layer), shape)
    if inputs.shape.rank > 2:
        inputs, b = flat_positions(inputs), flat_positions(b)
    return OuterSum(inputs, b, shape)


def _is_one_product(layer, inputs):
    return isinstance(layer, keras.layers.Dense) and inputs.shape.rank == 2


def _scaled(layer, inputs, b, scale):
    """The contribution scale * (a^2 b^T), from the inputs a."""
    squares = tf.square(widened(inputs))
    if _is_one_product(layer, inputs):
        return ScaledOuterSum(squares, b, scale)
    gradients = _linear(layer, squares, b).instantiated()
    return Instantiated(gradients * tf.cast(scale, gradients.dtype))


# --- outer products with one factor for each weight ---

# Of a squared norm without the factors: a longer gradient might not be a float32 number until the
# factors have made it smaller.
_LONGEST = 1e60


class ScaledOuterSum(OuterSum):
    """Gradients g_i = S * (a_i b_i^T), with S a factor for each weight and one position.

    The squared norm is sum_p b_p^2 (a^2 S^2)_p, a product of matrices, so that no gradient of a row
    is held. It is taken in float64, since squares of squares leave the range of float32. a is
    [rows, d], b [rows, p], and `scale`, S, [d, p], the same for all rows.
    """

    def __init__(self, a, b, scale):
        super().__init__(a, b, scale.shape)
        self._scale = widened(scale)

    def merged(self, other):
        return Contribution.merged(self, other)

    def grouped(self, count):
        return Contribution.grouped(self, count)

    def instantiated(self):
        return super().instantiated() * self._scale

    def squared_norms(self):
        return _rounded_up(self.wide_norms(), self._a.dtype)

    def wide_norms(self):
        """The squared norms in float64, [rows], not rounded up yet."""
        squares = (tf.square(tf.cast(x, tf.float64)) for x in (self._a, self._b, self._scale))
        a, b, scale = squares
        norms = tf.reduce_sum(b * tf.matmul(a, scale), axis=1)
        without = tf.reduce_sum(a, axis=1) * tf.reduce_sum(b, axis=1)
        return tf.where(without < _LONGEST, norms, tf.constant(np.inf, tf.float64))

    def weighted_sum(self, factors, finite, sums=IN_BLOCKS):
        # S is multiplied with the sum: one rounding more than `sums` counts otherwise.
        total = super().weighted_sum(factors, finite, sums.of_longer())
        return tf.cast(total, tf.float64) * tf.cast(self._scale, tf.float64)


class TiedOuterSum(Contribution):
    """Gradients g_i = a_i b_i^T + S * (a_i^2 c_i^T), with S a factor for each weight.

    The norm is that of both products and 2 sum_p b_p c_p (a^3 S)_p, in float64. They may cancel.
    Each is rounded by itself, so a share of both norms is added to that of the sum; and it is taken
    to be at least 1 / `LONGER` of both together, so that no part of a clipped row is longer than
    `LONGER` C. Rows are added up in float64. Shapes are as in `ScaledOuterSum`; c has that of b.
    """

    def __init__(self, a, b, c, scale):
        self._a, self._b, self._c, self._scale = map(widened, (a, b, c, scale))
        self._squares = tf.square(self._a)
        self._parts = [
            OuterSum(self._a, self._b, scale.shape),
            ScaledOuterSum(self._squares, self._c, self._scale),
        ]

    def instantiated(self):
        return tf.add_n([part.instantiated() for part in self._parts])

    def squared_norms(self):
        tensors = (self._a, self._squares, self._b, self._c, self._scale)
        a, squares, b, c, scale = (tf.cast(x, tf.float64) for x in tensors)
        first = tf.reduce_sum(tf.square(a), axis=1) * tf.reduce_sum(tf.square(b), axis=1)
        second = self._parts[1].wide_norms()
        cross = tf.reduce_sum(b * c * tf.matmul(a * squares, scale), axis=1)
        both = tf.sqrt(first) + tf.sqrt(second)
        # What float64 may take away: sums of up to 2^20 terms, each relative to both norms.
        exact = tf.maximum(first + 2 * cross + second, 0.0) + 2.0**-32 * tf.square(both)
        unit = np.finfo(self._a.dtype.as_numpy_dtype).eps
        norms = tf.maximum(tf.sqrt(exact) + 8 * unit * both, both / LONGER)
        return _rounded_up(tf.square(norms), self._a.dtype)

    def weighted_sum(self, factors, finite, sums=IN_BLOCKS):
        sums = RowSums(None)
        totals = [part.weighted_sum(factors, finite, sums) for part in self._parts]
        return tf.add_n([tf.cast(total, tf.float64) for total in totals])


def _rounded_up(norms, dtype):
    """Squared norms [rows], float64, in another dtype: not less, nor 0 where they are tiny."""
    unit, least = np.finfo(dtype.as_numpy_dtype).eps, np.finfo(dtype.as_numpy_dtype).tiny
    return tf.cast(norms * (1 + 16 * unit) + least, dtype)
