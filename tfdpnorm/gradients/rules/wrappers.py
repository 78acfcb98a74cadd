"""The rules of wrappers that run the layers inside them on other rows than their own."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients.refusals import refusal_of_engine
from tfdpnorm.gradients.rules.registry import Rule, register_rule
from tfdpnorm.keras_compat.layers import all_steps_at_once


class WrapperRule(Rule):
    """A layer without weights that gives the layers inside it several rows for each of its own.

    Only such a rule says which rows belong to one example. Shapes cannot say it: with a single
    example, any number of rows could be that example's.
    """

    def rows_per_row(self, layer, inputs):
        """How many consecutive rows the layers inside get for each row of `inputs`."""
        raise NotImplementedError

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        return call(inputs, *args, **kwargs), None

    def contributions(self, layer, remembered, gradients):
        return []


@register_rule(keras.layers.TimeDistributed)
class TimeDistributedRule(WrapperRule):
    """Runs the layer inside on [rows * steps, ...]: a row's steps follow each other."""

    def rows_per_row(self, layer, inputs):
        shape = tf.nest.flatten(inputs)[0].shape
        if isinstance(inputs, tf.RaggedTensor) or shape[1] is None:
            raise refusal_of_engine(
                f"Expected a known number of steps in layer {layer.name!r}, got "
                f"{type(inputs).__name__} of shape {tuple(shape)}",
                'Give keras.Input the number, or use engine="per_example".',
            )
        return shape[1]

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        with all_steps_at_once(layer):
            return call(inputs, *args, **kwargs), None
