"""The rules of layers whose weights or outputs are broadcast to all examples.

Keras' attention layers own such weights; `MultiHeadAttention` owns none: its projections are
EinsumDense layers. An embedding of positions gives [T, D], or [1, T, D], for all examples together:
its gradient with respect to one example is the gradient at that example's copy.
"""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.contribution import Instantiated, summed_to
from tfdpnorm.gradients.map_rows import map_rows
from tfdpnorm.gradients.refusals import refusal_of_engine
from tfdpnorm.gradients.rules.registry import Rule, register_rule
from tfdpnorm.keras_compat.exchange import exchanged
from tfdpnorm.keras_compat.models import own_weights


@register_rule(keras.layers.PReLU)
class PReLURule(Rule):
    """y = max(x, 0) + alpha min(x, 0): alpha's gradient is b min(x, 0), summed over shared axes.

    Most often each unit has its own alpha, and the gradients are as large as the activations.
    """

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        return watch(call(inputs, *args, **kwargs)), inputs

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        negative = tf.minimum(widened(remembered), 0.0)
        return [(layer.alpha, summed_to(widened(b) * negative, layer.alpha.shape))]


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
            of_sums = isinstance(layer, keras.layers.AdditiveAttention)
            if name == "scale" and (of_sums or layer.score_mode == "concat"):
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


class BroadcastOutputRule(Rule):
    """Gives each row a copy of the output: z [rows, ...]; and back from it, once for each row.

    It holds for a layer whose output the model broadcasts along a new first axis, or along a first
    axis of size 1, as an addition does: the caller has to know that. `rows`, the number of copies,
    may be a scalar tensor.
    """

    runs_own_call = True

    def __init__(self, rows):
        self._rows = rows

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        output = call(inputs, *args, **kwargs)
        if not isinstance(output, tf.Tensor) or not output.shape.is_fully_defined():
            raise refusal_of_engine(
                f"Expected layer {layer.name!r}, whose output reads no example, to return one "
                f"tensor of known shape, got {output}"
            )
        one = output if output.shape[:1] == [1] else output[tf.newaxis]
        copies = tf.broadcast_to(one, [self._rows, *one.shape[1:]])
        return watch(copies), (call, (inputs, args, kwargs), output.shape)

    def contributions(self, layer, remembered, gradients):
        call, (inputs, args, kwargs), shape = remembered
        variables = [v for v in own_weights(layer) if v.trainable]

        def one(row):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                output = call(inputs, *args, **kwargs)
            found = tape.gradient(
                output,
                variables,
                output_gradients=tf.reshape(row[0], shape),
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
            return [tf.convert_to_tensor(g) for g in found]

        (b,) = gradients
        per_row = map_rows(one, (b,))
        return [(v, Instantiated(g)) for v, g in zip(variables, per_row, strict=True)]
