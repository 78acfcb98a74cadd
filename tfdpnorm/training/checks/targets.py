"""Targets that the cross entropies of Keras cannot read: refused without showing a label."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

_SPARSE = (
    keras.losses.SparseCategoricalCrossentropy,
    keras.losses.sparse_categorical_crossentropy,
)
_DENSE = (keras.losses.CategoricalCrossentropy, keras.losses.categorical_crossentropy)


def check_targets(losses, outputs, targets):
    """Refuses one-hot targets for a sparse loss, labels for a dense one, and labels out of range.

    TensorFlow would refuse these within a step, and show labels.

    Args:
        losses: List of Keras losses, None for outputs without one.
        outputs: List of what the model gives, tensors or specs, as long.
        targets: List of arrays [N, ...]; nothing is checked if it is not as long.

    Raises:
        ValueError: with the remedy, and with nothing of the targets but their shape.
    """
    if not len(losses) == len(outputs) == len(targets):
        return
    for loss, output, target in zip(losses, outputs, targets, strict=True):
        if loss is not None and output.shape.rank and output.shape.rank > 1:
            _check(keras.losses.get(loss), output.shape, target)


def _check(loss, shape, target):
    classes = shape[-1]
    if classes is None or classes < 2:
        return
    given = f"got y of shape {['N', *target.shape[1:]]} beside outputs of shape "
    given += f"{['N', *shape[1:]]}"
    by_class = target.ndim == len(shape) and target.shape[-1] == classes
    if _is(loss, _SPARSE):
        if by_class:
            raise ValueError(
                f"Expected one class number for each prediction with a sparse loss, {given}: they "
                "look one-hot. Use keras.losses.CategoricalCrossentropy, with the same "
                "from_logits, or pass y.argmax(-1)."
            )
        _check_range(target, classes, _ignored(loss))
    elif _is(loss, _DENSE) and not by_class and target.ndim <= len(shape):
        raise ValueError(
            f"Expected a number for each class with a categorical loss, {given}: they look like "
            "class numbers. Use keras.losses.SparseCategoricalCrossentropy, with the same "
            f"from_logits, or pass keras.utils.to_categorical(y, {classes})."
        )


def _check_range(labels, classes, ignored):
    out = (labels < 0) | (labels >= classes)
    if ignored is not None:
        out &= labels != ignored
    if np.any(out):
        raise ValueError(
            f"Expected class numbers in [0, {classes}), as many as the model has outputs, got some "
            "outside. Number the classes from 0, or give the last layer an output for each."
        )


def _ignored(loss):
    """The class that a loss object leaves out, or None."""
    if not isinstance(loss, keras.losses.Loss):
        return None
    return loss.get_config().get("ignore_class")


def _is(loss, kinds):
    cls, function = kinds
    return loss is function or isinstance(loss, cls)


def outputs_of(model):
    """The outputs of a functional model, a list; None for others, which do not know them."""
    return None if model.outputs is None else tf.nest.flatten(model.outputs)
