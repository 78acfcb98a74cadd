"""The rule of Keras' attention layers that own weights themselves.

`MultiHeadAttention` owns none: its projections are EinsumDense layers.
"""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients.contributions.contribution import Instantiated
from tfdpnorm.gradients.rules.registry import Rule, register_rule
from tfdpnorm.keras_compat.exchange import exchanged


@register_rule(keras.layers.Attention, keras.layers.AdditiveAttention)
class AttentionRule(Rule):
    """Runs with one copy of the weights per row: z is the copies, b the gradients themselves."""

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        query = inputs[0]
        copies = {}
        for name in _weight_names(layer):
            value = tf.convert_to_tensor(getattr(layer, name))
            # They are multiplied with scores [rows, ..., queries, keys], the scale of scores that
            # are sums over features with [rows, ..., queries, keys, features].
            rank = query.shape.rank
            if name == "scale" and getattr(layer, "score_mode", "concat") == "concat":
                rank += 1
            ones = [1] * (rank - 1 - value.shape.rank)
            rows = tf.shape(query)[0] if query.shape[0] is None else query.shape[0]
            copies[name] = watch(tf.broadcast_to(value, [rows, *ones, *value.shape]))
        with exchanged(layer, **copies):
            return call(inputs, *args, **kwargs), None

    def contributions(self, layer, remembered, gradients):
        weights = [getattr(layer, name) for name in _weight_names(layer)]
        return [
            (weight, Instantiated(tf.reshape(b, [-1, *weight.shape])))
            for weight, b in zip(weights, gradients, strict=True)
        ]


def _weight_names(layer):
    names = ("scale", "concat_score_weight")
    return [name for name in names if getattr(layer, name, None) is not None]
