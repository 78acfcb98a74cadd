"""The data of `fit` in the forms that Keras takes, brought into one: tuples and dicts of arrays."""

import warnings

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.models import symbolic_inputs


def tuples_of_arrays(structure, count):
    """Turns lists of several arrays into tuples, as Keras reads them.

    A list of anything else is one array: of rows, numbers or texts.

    Args:
        structure: What `fit` was given, of dicts, tuples, lists and arrays.
        count: N; a list is one of arrays if each of them has so many rows.
    """
    if isinstance(structure, dict):
        return {name: tuples_of_arrays(part, count) for name, part in structure.items()}
    if isinstance(structure, tuple) and not hasattr(structure, "_fields"):
        return tuple(tuples_of_arrays(part, count) for part in structure)
    if isinstance(structure, list) and structure and all(_rows(x) == count for x in structure):
        return tuple(structure)
    return structure


def _rows(x):
    shape = getattr(x, "shape", None)
    if shape is not None:
        return shape[0] if len(shape) else None
    return len(x) if isinstance(x, list) and x and isinstance(x[0], (list, np.ndarray)) else None


def check_inputs(model, x):
    """Refuses another number of arrays than a functional model has inputs, and texts for numbers.

    Dicts may hold more: Keras leaves those out.

    Raises:
        ValueError: with both numbers.
        TypeError: for texts.
    """
    inputs = symbolic_inputs(model)
    if inputs is None or isinstance(x, dict):
        return
    expected, given = len(tf.nest.flatten(inputs)), len(tf.nest.flatten(x))
    if expected != given:
        raise ValueError(
            f"Expected x to hold {expected} array(s), one for each input of the model, got "
            f"{given}. Several inputs go in a tuple, a list or a dict of arrays."
        )
    for spec, array in zip(tf.nest.flatten(inputs), tf.nest.flatten(x), strict=True):
        if array.dtype == object and spec.dtype != tf.string:
            raise TypeError(
                f"Expected numbers for input {spec.name!r} of the model, got texts. Turn them into "
                "ids, by keras.layers.TextVectorization(vocabulary=...) or tfdpnorm.data."
                "hash_tokens."
            )


def check_sample_weight(sample_weight):
    """Refuses weights by output.

    Raises:
        ValueError: with the remedy.
    """
    if isinstance(sample_weight, (dict, tuple)) or (
        isinstance(sample_weight, list) and any(np.ndim(w) for w in sample_weight)
    ):
        raise ValueError(
            "Expected sample_weight of shape [N], one number for each example, got weights by "
            "output. Weigh the outputs by compile(loss_weights=...); for weights of both, put them "
            "into y beside the targets, and let the loss multiply by them."
        )


def check_batch_size(batch_size, plan):
    """Refuses a batch size that is not the expected lot size of the plan.

    Raises:
        ValueError: naming both.
    """
    if batch_size is not None and batch_size != plan.expected_batch_size:
        raise ValueError(
            f"Expected batch_size={plan.expected_batch_size:g}, the expected_batch_size that "
            f"make_private() planned the privacy loss for, or None, got {batch_size!r}. Set "
            "expected_batch_size of make_private() instead; physical_batch_size there bounds the "
            "memory."
        )


def rows_of_sequence(sequence, count):
    """Reads all items of a `keras.utils.Sequence`, so that its rows can be sampled one by one.

    Args:
        sequence: It gives batches (x, y) or (x, y, sample_weight) by their number.
        count: N, as planned.

    Returns:
        Triple (x, y, sample_weight) of arrays [N, ...], or None for a sequence that cannot be
        sampled honestly: whose first item is another one when it is read again (it is random), or
        that does not have N rows.
    """
    first, again = sequence[0], sequence[0]
    if not _same(first, again) or not isinstance(first, tuple) or len(first) not in (2, 3):
        return None
    items = [first, *(sequence[i] for i in range(1, len(sequence)))]
    try:
        joined = tf.nest.map_structure(lambda *parts: np.concatenate(parts), *items)
    except ValueError:
        return None
    if any(len(part) != count for part in tf.nest.flatten(joined)):
        return None
    warnings.warn(
        f"The {len(items)} items of {type(sequence).__name__} are read once, into memory, and "
        f"their {count} rows are Poisson-sampled as single examples: its batches, its order and "
        "its on_epoch_end() are not used.",
        stacklevel=4,
    )
    return (*joined, None)[:3]


def is_sequence(x):
    """Whether x gives batches by their number."""
    return isinstance(x, keras.utils.Sequence)


def _same(one, other):
    try:
        tf.nest.assert_same_structure(one, other)
    except (ValueError, TypeError):
        return False
    pairs = zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)
