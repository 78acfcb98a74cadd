"""How large the gradient of an example usually is, from public rows with random labels."""

import math

import numpy as np
import tensorflow as tf

from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.layers.pulled_back_noise import squared_norm

_ROWS = 64
_DRAWS = 8


def usual_gradient_norm(streams, loss, per_example_loss):
    """Returns the root mean square of the norms of public rows' gradients, at the present weights.

    With random signs the square of a summed gradient is, in the mean, the sum of the squares.
    `loss` is what `compile` got, `per_example_loss` its `PerExampleLoss`.

    Returns None for a model without public rows or not yet built, with several outputs, or with
    another loss than the cross-entropy of one label, whose labels cannot be guessed.
    """
    name = loss if isinstance(loss, str) else getattr(loss, "name", None)
    if streams.mode != "public" or not streams.model.built or name not in _LABELS:
        return None
    rows = tf.nest.map_structure(lambda part: part[:_ROWS], streams.public_batch)
    variables, rng = trainable_variables(streams.model), np.random.default_rng(0)
    weights = streams.clip_weights(variables) or [1.0] * len(variables)
    statistics = streams.public_pass(training=False)
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(variables)
        outputs = streams.forward(rows, statistics, training=False)
        if not tf.is_tensor(outputs) or outputs.shape.rank != 2:
            return None
        count, classes = outputs.shape
        labels = _LABELS[name](rng.integers(classes, size=count), classes)
        losses = per_example_loss(labels, outputs)
    total = 0.0
    for _ in range(_DRAWS):
        signs = tf.constant(rng.choice([-1, 1], count), losses.dtype)
        gradients = tape.gradient(losses, variables, signs, unconnected_gradients="zero")
        total += sum(w**2 * squared_norm(g) for w, g in zip(weights, gradients, strict=True))
    return math.sqrt(total / (_DRAWS * count))


def _numbers(labels, classes):
    del classes
    return tf.constant(labels, tf.int32)


def _one_hot(labels, classes):
    return tf.one_hot(labels, classes)


_LABELS = {"sparse_categorical_crossentropy": _numbers, "categorical_crossentropy": _one_hot}
