"""The rule of layers with variational dropout."""

from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.broadcast import bias_gradients, summed_to
from tfdpnorm.gradients.contributions.contribution import Instantiated, OuterSum
from tfdpnorm.gradients.contributions.convolution_sum import ConvolutionSum
from tfdpnorm.gradients.contributions.positions import flat_positions
from tfdpnorm.gradients.contributions.scaled_sum import ScaledOuterSum, TiedOuterSum
from tfdpnorm.gradients.contributions.window import Window
from tfdpnorm.gradients.rules.fallback import FallbackRule
from tfdpnorm.gradients.rules.registry import Rule, register_rule
from tfdpnorm.keras_compat.layers import said_or_by_default
from tfdpnorm.layers import VariationalDropoutConv2D, VariationalDropoutDense


class _Drawn(NamedTuple):
    """What is remembered of a call that draws the pre-activations.

    Attributes:
        inputs: [rows, ...], a.
        variance: [rows, ..., units], v = a^2 zeta^2.
    """

    inputs: Any
    variance: Any


@register_rule(VariationalDropoutDense, VariationalDropoutConv2D)
class VariationalDropoutRule(Rule):
    """Weights enter at the mean m = a phi + bias and the variance v = a^2 zeta^2.

    With b_m and b_v the gradients by both, drawn numbers held fixed, the gradient by a zeta^2 is
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
