"""The rule of layers whose output is broadcast to all examples.

An embedding of positions gives [T, D], or [1, T, D], for all examples together: its gradient with
respect to one example is the gradient at that example's copy.
"""

import tensorflow as tf

from tfdpnorm.gradients.contributions.contribution import Instantiated
from tfdpnorm.gradients.map_rows import map_rows
from tfdpnorm.gradients.refusals import refusal_of_engine
from tfdpnorm.gradients.rules.registry import Rule
from tfdpnorm.keras_compat.models import own_weights


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
                f"The output of layer {layer.name!r} depends on no example, and is not one tensor "
                f"of known shape, but {output}"
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
