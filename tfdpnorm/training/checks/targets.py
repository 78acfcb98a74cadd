"""Targets, and weights of classes of them."""

import numbers
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

_SPARSE = (
    keras.losses.SparseCategoricalCrossentropy,
    keras.losses.sparse_categorical_crossentropy,
)
_DENSE = (keras.losses.CategoricalCrossentropy, keras.losses.categorical_crossentropy)
_BINARY = (
    (keras.losses.BinaryCrossentropy, keras.losses.binary_crossentropy),
    (keras.losses.BinaryFocalCrossentropy, keras.losses.binary_focal_crossentropy),
)


class Allowed(NamedTuple):
    """The targets that a loss takes: from 0 to below `end`, or up to it, and one it leaves out."""

    end: int
    is_among: bool = False
    ignored: int | None = None

    def are_wrong(self, labels):
        """Where an array or tensor of labels holds others; booleans of its shape."""
        wrong = (labels < 0) | (labels > self.end if self.is_among else labels >= self.end)
        return wrong if self.ignored is None else wrong & (labels != self.ignored)


def check_targets(losses, outputs, targets):
    """Rejects one-hot targets for a sparse loss, labels for a dense one, and targets out of range.

    TensorFlow would reject these within a step, and show labels: the ValueError shows only their
    shape. Labels that are read on demand are not looked at.

    Losses (None for outputs without one), outputs (tensors or specs) and targets (arrays [N, ...])
    are lists; nothing is checked if their lengths differ. Returns a list of what is `Allowed` in
    each target, class numbers or 0 to 1 of a binary loss; None for other targets.
    """
    if not len(losses) == len(outputs) == len(targets):
        return [None] * len(targets)
    return [
        _check(keras.losses.get(loss), output.shape, target)
        if loss is not None and output.shape.rank and output.shape.rank > 1
        else None
        for loss, output, target in zip(losses, outputs, targets, strict=True)
    ]


def _check(loss, shape, target):
    classes = shape[-1]
    if any(_is(loss, kinds) for kinds in _BINARY):
        remedy = "Write y = (y == positive).astype(int), with the label of the second class."
        if target.ndim > 1 and target.shape[-1] > 1:
            remedy = (
                "If others stand for unknown labels, use a loss that leaves these out: "
                "docs/preparing_data.md#labels-that-are-unknown."
            )
        return _checked_range(
            target,
            Allowed(1, is_among=True),
            "Some targets are outside of [0, 1], and the loss takes 0 for one class and 1 for the "
            f"other. {remedy}",
        )
    if classes is None or classes < 2:
        return None
    given = f"got y of shape {['N', *target.shape[1:]]} and outputs of shape "
    given += f"{['N', *shape[1:]]}"
    by_class = target.ndim == len(shape) and target.shape[-1] == classes
    if _is(loss, _SPARSE):
        if by_class:
            raise ValueError(
                f"Expected one class number for each prediction with a sparse loss, {given}: they "
                "look one-hot. Use keras.losses.CategoricalCrossentropy, with the same "
                "from_logits, or pass y.argmax(-1)."
            )
        is_object = isinstance(loss, keras.losses.Loss)
        ignored = loss.get_config().get("ignore_class") if is_object else None
        return _checked_range(
            target,
            Allowed(classes, ignored=ignored),
            f"Some class numbers are outside of [0, {classes}), as many as the model has outputs. "
            "Number the classes from 0, or give the last layer an output for each.",
        )
    if _is(loss, _DENSE) and not by_class and target.ndim <= len(shape):
        raise ValueError(
            f"Expected a number for each class with a categorical loss, {given}: they look like "
            "class numbers. Use keras.losses.SparseCategoricalCrossentropy, with the same "
            f"from_logits, or pass keras.utils.to_categorical(y, {classes})."
        )
    return None


def _checked_range(labels, allowed, message):
    """Returns `allowed`, unless an array of labels holds others."""
    if isinstance(labels, np.ndarray) and np.any(allowed.are_wrong(labels)):
        raise ValueError(message)
    return allowed


def _is(loss, kinds):
    cls, function = kinds
    return loss is function or isinstance(loss, cls)


def weights_by_class(class_weight, y, sample_weight):
    """Returns the weight of each example, [N], as Keras makes it from those of classes 0, 1, ... .

    An example's weight depends on its own label alone, so that its gradient is clipped as that of
    any other example. `y` are class numbers [N] or [N, 1], or [N, classes], each row a distribution
    of which the largest is an example's; `sample_weight` [N] is None, or multiplied with these.
    Raises ValueError for other weights or targets, with nothing of the targets but their shape.
    """
    numbered = isinstance(class_weight, dict) and set(class_weight) == set(range(len(class_weight)))
    if not numbered or not all(isinstance(w, numbers.Real) for w in class_weight.values()):
        raise ValueError(
            "Expected class_weight to be a dict of a number for each class 0, 1, ..., got "
            f"{class_weight!r}. Or pass sample_weight, one number for each example."
        )
    # Not later, for examples: a message about their weights would reveal their labels.
    most = np.finfo(np.float32).max
    wrong = {i: w for i, w in class_weight.items() if not 0 <= w <= most}
    if wrong:
        raise ValueError(
            "Expected class_weight >= 0 and finite in float32 for each class, got "
            f"{wrong}. With 0 the examples of a class count for nothing."
        )
    if y is None:
        raise ValueError(
            "class_weight needs targets, and there are none. Pass arrays x and y; or weight the "
            "examples, with sample_weight of poisson_batches() or with examples (x, y, "
            "sample_weight) of a source."
        )
    if tf.nest.is_nested(y) and not isinstance(y, list):
        raise ValueError(
            "Expected targets of one output with class_weight, got several. Pass sample_weight, "
            "one number for each example."
        )
    y = np.asarray(y)
    if y.ndim > 2:
        raise ValueError(
            f"Expected targets [N] or [N, classes] with class_weight, got shape {y.shape}. Pass "
            "sample_weight, of the shape of the targets."
        )
    if y.ndim == 2 and y.shape[1] > len(class_weight):
        raise ValueError(
            f"Expected a weight for each of the {y.shape[1]} columns of the targets, got weights "
            f"for {len(class_weight)} classes. class_weight needs one class per example: class "
            "numbers, or one column for each class. For several labels per example, pass "
            "sample_weight, one number for each example."
        )
    by_column = y.ndim == 2 and y.shape[1] > 1
    if by_column and not np.allclose(y.sum(1), 1, atol=1e-3):
        raise ValueError(
            "Some targets have several classes or none, and class_weight needs one class per "
            "example. Pass sample_weight, one number for each example, or weight each label's term "
            "in a loss of your own."
        )
    labels = y.argmax(1) if by_column else y.reshape(-1)
    known = np.isin(labels, np.arange(len(class_weight)))
    if not known.all():
        raise ValueError(
            f"Expected a weight for each class in the targets, got weights for {len(class_weight)} "
            "classes and targets of others. Add those to class_weight."
        )
    weights = np.array([class_weight[i] for i in range(len(class_weight))], np.float32)
    weights = weights[labels.astype(np.int64)]
    if sample_weight is None:
        return weights
    sample_weight = np.asarray(sample_weight)
    return weights.reshape(-1, *[1] * (sample_weight.ndim - 1)) * sample_weight
