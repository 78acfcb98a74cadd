"""The rule of embeddings."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients.contributions.lookup_sum import LookupSum
from tfdpnorm.gradients.contributions.positions import size
from tfdpnorm.gradients.rules.registry import Rule, register_rule


@register_rule(keras.layers.Embedding)
class EmbeddingRule(Rule):
    """z is the vectors found: the table's gradient is the sum over t of b_t in the row of id_t."""

    def applies(self, layer):
        return not layer.sparse

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        if not isinstance(inputs, tf.Tensor):
            raise ValueError(
                f"Expected a dense tensor of ids in layer {layer.name!r}, got "
                f"{type(inputs).__name__}. Pad the ids to one length."
            )
        return watch(call(inputs, *args, **kwargs)), inputs

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        ids = tf.cast(remembered, remembered.dtype if remembered.dtype.is_integer else tf.int32)
        rows = size(ids, 0)
        ids, b = tf.reshape(ids, [rows, -1]), tf.reshape(b, [rows, -1, b.shape[-1]])
        return [(layer.embeddings, LookupSum(ids, b, layer.embeddings.shape))]
