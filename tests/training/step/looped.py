"""The clipped sum of a training step as its definition says it: one example after the other."""

import numpy as np
import tensorflow as tf


def looped_sum(model, loss_of, examples, clip, clipping="flat", clip_function="abadi"):
    """Sum of clipped gradients, added up in float64.

    Args:
        model: The model, whose trainable variables are differentiated.
        loss_of: Function from the number of an example to its loss, a scalar.
        examples: How many there are.
        clip: The clipping norm; infinity clips nothing.
        clipping: "flat", or "per_layer" with an equal share of the norm for each layer.
        clip_function: "abadi" or "automatic".

    Returns:
        [coordinates] float64.
    """
    layers = [layer.trainable_variables for layer in model.layers if layer.trainable_variables]
    groups = layers if clipping == "per_layer" else [model.trainable_variables]
    share = clip / np.sqrt(len(groups))
    total = 0.0
    for i in range(examples):
        with tf.GradientTape() as tape:
            loss = loss_of(i)
        clipped = [_clipped(g, share, clip_function) for g in tape.gradient(loss, groups)]
        total = total + np.concatenate(clipped)
    return total


def _clipped(gradients, clip, function):
    flat = [tf.convert_to_tensor(g).numpy().ravel() for g in gradients]
    vector = np.concatenate(flat).astype(np.float64)
    norm = np.linalg.norm(vector)
    if function == "automatic":
        return vector * clip / (norm + 0.01)
    return vector * min(1.0, clip / max(norm, 1e-30))
