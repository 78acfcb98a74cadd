"""Masks that Keras' layers hang on tensors.

A private part of Keras 2: `_keras_mask`, by which losses and metrics learn the steps that count.
It is not kept by TensorFlow's own operations, slices and loops.
"""

import tensorflow as tf


def keras_mask(tensor):
    """Returns the mask that a tensor carries, [rows, ...], or None."""
    return getattr(tensor, "_keras_mask", None)


def is_called_with_a_mask(layer):
    """Whether graphs of layers call a layer on a tensor that carries a mask."""
    tensors = [tensor for node in layer.inbound_nodes for tensor in node.keras_inputs]
    return any(keras_mask(tensor) is not None for tensor in tensors)


def with_keras_mask(tensor, mask):
    """Returns the tensor carrying a mask, or none if that is None."""
    tensor = tf.identity(tensor)
    tensor._keras_mask = mask
    return tensor
