"""The values of a loss, one for each step of an example, brought to one number an example."""

import warnings

import tensorflow as tf

from tfdpnorm.keras_compat.graphs import as_written
from tfdpnorm.keras_compat.layers import keras_mask

MEANING = (
    "Outputs carry a Keras mask, or the loss an ignore_class. Each example's loss is the mean over "
    "its own valid steps; Keras divides by the valid steps of the whole batch, a private number. "
    "Both are the same where all examples have as many valid steps. To weigh all steps alike, as "
    "Keras does, pass sample_weight = valid steps of each example / a public number of steps."
)


def example_means(values, mask, weights=None):
    """Returns the mean of each row's values, [rows].

    Args:
        values: [rows, ...].
        mask: None, or [rows, ...] of as many axes or fewer: 0 leaves a step out. Without a valid
            step the mean is 0.
        weights: None, or [rows, ...] of as many axes or fewer, which values are multiplied by. The
            mean is not divided by them.

    Raises:
        ValueError: for a mask or weights whose axes are not the first ones of `values`.
    """
    if weights is not None:
        weights = _of_first_axes("weights", tf.cast(weights, values.dtype), values)
        missing = [1] * (values.shape.rank - weights.shape.rank)
        values *= tf.reshape(weights, tf.concat([tf.shape(weights), missing], 0))
    if mask is None:
        return _mean_from(values, 1)
    mask = _of_first_axes("a mask", mask, values)
    rank = mask.shape.rank
    values, valid = _mean_from(values, rank), tf.cast(mask, tf.bool)
    # Chosen, not multiplied by 0: what is left out may be infinite, and so may its gradient.
    values = tf.where(valid, values, tf.zeros_like(values))
    steps = list(range(1, rank))
    if not steps:
        return values
    count = tf.reduce_sum(tf.cast(valid, values.dtype), axis=steps)
    return tf.math.divide_no_nan(tf.reduce_sum(values, axis=steps), count)


def _of_first_axes(name, t, values):
    """A mask or weights, without last axes of one entry that `values` does not have."""
    while t.shape.rank > values.shape.rank and t.shape[-1] == 1:
        t = tf.squeeze(t, -1)
    rank = t.shape.rank
    if rank > values.shape.rank or not t.shape.is_compatible_with(values.shape[:rank]):
        raise ValueError(
            f"Expected {name} with the first axes of the loss, {tuple(values.shape)}, got shape "
            f"{tuple(t.shape)}. Compute the loss with one value for each step that has one."
        )
    return t


def mask_of(*tensors):
    """The steps that are valid by the Keras masks of all tensors, bool; None without a mask."""
    masks = [keras_mask(t) for t in tensors]
    masks = [tf.cast(mask, tf.bool) for mask in masks if mask is not None]
    if not masks:
        return None
    return masks[0] if len(masks) == 1 else tf.logical_and(*masks)


@as_written
def warn_of_meaning():
    """Says once for each place that asks what a mask means here, and where Keras differs."""
    warnings.warn(MEANING, stacklevel=2)


def _mean_from(values, axis):
    if values.shape.rank == axis:
        return values
    return tf.reduce_mean(values, axis=list(range(axis, values.shape.rank)))
