"""Clipping of per-example gradients and the sum of the clipped ones."""

from typing import Any, NamedTuple

import tensorflow as tf


class ClippedSum(NamedTuple):
    """The sum over the rows of a batch of their clipped gradients.

    Adding or removing one row changes `gradients`, taken as one vector, by at most the clipping
    norm in L2, whatever that row holds (a non-finite gradient counts as zero).

    Attributes:
        gradients: List of float32 tensors (float64 for float64 variables), one per variable.
        losses: [rows], the loss of each row, with its sample weight, before any mask.
        predictions: Structure of [rows, ...].
        nonfinite: Scalar int32, how many unmasked rows had a gradient that is not finite.
    """

    gradients: list
    losses: tf.Tensor
    predictions: Any
    nonfinite: tf.Tensor


def accumulation_dtype(variable):
    """The dtype in which gradients of `variable` are summed: float32 unless it is float64."""
    dtype = tf.as_dtype(variable.dtype)
    return dtype if dtype == tf.float64 else tf.float32


def clip_factors(squared_norms, l2_norm_clip):
    """Factors that scale vectors down to norm `l2_norm_clip`: min(1, C / ||g||).

    | norm | factor |
    |---|---|
    | 0 | 1 |
    | at most C | 1 |
    | more than C | C / norm |
    | infinite or NaN | 0 |

    Args:
        squared_norms: [rows], squared L2 norms.
        l2_norm_clip: C > 0, infinite for no clipping.

    Returns:
        [rows], of the dtype of `squared_norms`.

    Reference:
        Abadi et al. (2016), Algorithm 1, "Clip gradient".
    """
    norms = tf.sqrt(squared_norms)
    clip = tf.convert_to_tensor(l2_norm_clip, norms.dtype)
    factors = tf.where(norms > clip, clip / tf.where(norms > clip, norms, 1.0), 1.0)
    return tf.where(tf.math.is_finite(squared_norms), factors, tf.zeros_like(factors))


def clipped_sum(per_example_gradients, mask, l2_norm_clip):
    """Clips each row's gradient and adds the rows up.

    Args:
        per_example_gradients: List of [rows, *variable.shape].
        mask: [rows], 1.0 for a row of the lot, 0.0 for padding.
        l2_norm_clip: C > 0; infinite for no clipping.

    Returns:
        Pair of the list of summed gradients, *variable.shape each, and the scalar int32 number of
        unmasked rows whose gradient is not finite (they count as zero).
    """
    wide = any(g.dtype == tf.float64 for g in per_example_gradients)
    norm_dtype = tf.float64 if wide else tf.float32
    squared_norms = tf.add_n(
        [
            tf.cast(tf.reduce_sum(tf.square(g), axis=list(range(1, g.shape.rank))), norm_dtype)
            for g in per_example_gradients
        ]
    )
    finite = tf.math.is_finite(squared_norms)
    factors = clip_factors(squared_norms, l2_norm_clip) * tf.cast(mask, norm_dtype)

    def weighted(gradient):
        # 0 * inf is NaN: what is not finite must be gone before any product.
        shape = [-1] + [1] * (gradient.shape.rank - 1)
        clean = tf.where(tf.reshape(finite, shape), gradient, tf.zeros_like(gradient))
        return tf.tensordot(tf.cast(factors, gradient.dtype), clean, axes=1)

    nonfinite = tf.reduce_sum(tf.cast(~finite & (tf.cast(mask, tf.float32) > 0), tf.int32))
    return [weighted(g) for g in per_example_gradients], nonfinite
