"""The rule of dense layers."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients.rules.contributions import Instantiated, OuterSum
from tfdpnorm.gradients.rules.registry import Rule, register_rule


def without_activation(layer, call, *args, **kwargs):
    """Runs a layer's call without its activation, and returns the output and the activation."""
    activation = layer.activation
    layer.activation = keras.activations.linear
    try:
        return call(*args, **kwargs), activation
    finally:
        layer.activation = activation


@register_rule(keras.layers.Dense)
class DenseRule(Rule):
    """z = a W + bias: the kernel's gradient is sum_t a_t b_t^T, the bias's sum_t b_t."""

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        z, activation = without_activation(layer, call, inputs, *args, **kwargs)
        return activation(watch(z)), inputs

    def contributions(self, layer, remembered, gradients):
        a, (b,) = remembered, gradients
        bias_axes = list(range(1, b.shape.rank - 1))
        if a.shape.rank > 2:
            a = tf.reshape(a, [tf.shape(a)[0], _positions(a), a.shape[-1]])
            bias = tf.reduce_sum(tf.cast(b, tf.float32) if b.dtype.size < 4 else b, bias_axes)
            b = tf.reshape(b, [tf.shape(b)[0], _positions(b), b.shape[-1]])
        else:
            bias = b
        found = [(layer.kernel, OuterSum(a, b, layer.kernel.shape))]
        if layer.use_bias:
            found.append((layer.bias, Instantiated(bias)))
        return found


def _positions(x):
    """The number of positions between rows and features, static where it is known."""
    known = x.shape[1:-1].num_elements()
    return tf.reduce_prod(tf.shape(x)[1:-1]) if known is None else known
