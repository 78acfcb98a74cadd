"""The rule of layers that have none: one gradient per row, for that layer alone."""

import tensorflow as tf

from tfdpnorm.gradients.contributions.contribution import Instantiated
from tfdpnorm.gradients.map_rows import map_rows
from tfdpnorm.gradients.refusals import refusal_of_engine
from tfdpnorm.gradients.rules.registry import Rule
from tfdpnorm.keras_compat.walk import own_weights, sublayers
from tfdpnorm.layers import PublicMomentsLayer


class FallbackRule(Rule):
    """Runs the layer once more for each row, and back from the gradient of its output.

    Works for any layer with per-example independence, at the cost of rows x weights numbers. A
    layer that draws random numbers draws them again; the gradient is then that of the second draw,
    clipped by its own norm.
    """

    def applies(self, layer):
        return not any(isinstance(x, PublicMomentsLayer) for x in sublayers(layer))

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        outputs = call(inputs, *args, **kwargs)
        for z in _distinct(outputs):
            watch(z)
        return outputs, (call, (inputs, args, kwargs))

    def contributions(self, layer, remembered, gradients):
        call, arguments = remembered
        variables = [v for v in own_weights(layer) if v.trainable]
        count = gradients[0].shape[0]
        flat = tf.nest.flatten(arguments)
        in_rows = [tf.is_tensor(x) and x.shape.rank and x.shape[0] == count for x in flat]
        whole = [x.shape for x in tf.nest.flatten(arguments[0]) if x.shape[:1] != [count]]
        if count is None or whole:
            # An input that is not split would let every row see all the others.
            raise refusal_of_engine(
                f"Expected layer {layer.name!r} to take and give {count} rows, got inputs of "
                f"shapes {whole or 'unknown'}"
            )

        def one(row):
            given = iter(row[0])
            rebuilt = [
                tf.expand_dims(next(given), 0) if split else x
                for x, split in zip(flat, in_rows, strict=True)
            ]
            inputs, args, kwargs = tf.nest.pack_sequence_as(arguments, rebuilt)
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                outputs = _distinct(call(inputs, *args, **kwargs))
            found = tape.gradient(
                outputs,
                variables,
                output_gradients=[tf.expand_dims(b, 0) for b in row[1]],
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
            return [tf.convert_to_tensor(g) for g in found]

        split = [x for x, is_split in zip(flat, in_rows, strict=True) if is_split]
        per_row = map_rows(one, (split, list(gradients), tf.zeros([count])))
        return [(v, Instantiated(g)) for v, g in zip(variables, per_row, strict=True)]


def _distinct(outputs):
    """The floating tensors of a structure, each once: a recurrent layer gives its state twice."""
    flat = [z for z in tf.nest.flatten(outputs) if z.dtype.is_floating]
    return list({id(z): z for z in flat}.values())
