"""Clipping of per-example gradients and the sum of the clipped ones."""

import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

CLIP_FUNCTIONS = ("abadi", "automatic")
AUTOMATIC_CLIPPING_STABILITY = 0.01


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


def clip_factors(squared_norms, l2_norm_clip, clip_function="abadi"):
    """Factors that bring vectors g to a norm of at most C = `l2_norm_clip`.

    | norm | "abadi": min(1, C / norm) | "automatic": C / (norm + 0.01) |
    |---|---|---|
    | 0 | 1 | 100 C |
    | at most C | 1 | C / (norm + 0.01) |
    | more than C | C / norm | C / (norm + 0.01) |
    | infinite or NaN | 0 | 0 |

    Args:
        squared_norms: [rows], squared L2 norms.
        l2_norm_clip: C > 0, infinite for no clipping ("abadi" only).
        clip_function: One of `CLIP_FUNCTIONS`. "automatic" gives every example nearly the same
            norm, so that C and the learning rate are one hyperparameter instead of two.

    Returns:
        [rows], of the dtype of `squared_norms`.

    Reference:
        Abadi et al. (2016), Algorithm 1, "Clip gradient"; Bu et al. (2023), "Automatic clipping:
        differentially private deep learning made easier and stronger", AUTO-S with gamma = 0.01.
    """
    norms = tf.sqrt(squared_norms)
    clip = tf.convert_to_tensor(l2_norm_clip, norms.dtype)
    if clip_function == "automatic":
        factors = clip / (norms + AUTOMATIC_CLIPPING_STABILITY)
    else:
        factors = tf.where(norms > clip, clip / tf.where(norms > clip, norms, 1.0), 1.0)
    return tf.where(tf.math.is_finite(squared_norms), factors, tf.zeros_like(factors))


def clip_factors_by_variable(squared_norms, l2_norm_clip, clip_function="abadi", clip_groups=None):
    """Clip factors of gradients that are made of several variables' parts.

    Args:
        squared_norms: List of [rows], one for each variable.
        l2_norm_clip: See `clip_factors`.
        clip_function: Likewise.
        clip_groups: None: all variables are one vector ("flat" clipping). Or a number for each
            variable: those of one number are clipped together, each of the G groups to C / sqrt(G),
            so that the whole has a norm of at most C ("per-layer" clipping, McMahan et al. 2018).

    Returns:
        Pair of the list of factors, [rows] for each variable, and [rows], bool: which rows are
        finite in all of their parts. The others' factors are 0.
    """
    clip_groups = clip_groups or [0] * len(squared_norms)
    of_group = {}
    for group, norms in zip(clip_groups, squared_norms, strict=True):
        of_group.setdefault(group, []).append(norms)
    totals = {group: tf.add_n(norms) for group, norms in of_group.items()}
    finite = tf.math.is_finite(tf.add_n(list(totals.values())))
    share = l2_norm_clip / math.sqrt(len(totals))
    factors = {
        group: clip_factors(tf.where(finite, total, np.inf), share, clip_function)
        for group, total in totals.items()
    }
    return [factors[group] for group in clip_groups], finite


def clipped_sum(per_example_gradients, mask, l2_norm_clip, clip_function="abadi", clip_groups=None):
    """Clips each row's gradient and adds the rows up.

    Args:
        per_example_gradients: List of [rows, *variable.shape].
        mask: [rows], 1.0 for a row of the lot, 0.0 for padding.
        l2_norm_clip: See `clip_factors_by_variable`.
        clip_function: Likewise.
        clip_groups: Likewise.

    Returns:
        Pair of the list of summed gradients, *variable.shape each, and the scalar int32 number of
        unmasked rows whose gradient is not finite (they count as zero).
    """
    wide = any(g.dtype == tf.float64 for g in per_example_gradients)
    norm_dtype = tf.float64 if wide else tf.float32
    squared_norms = [
        tf.cast(tf.reduce_sum(tf.square(g), axis=list(range(1, g.shape.rank))), norm_dtype)
        for g in per_example_gradients
    ]
    factors, finite = clip_factors_by_variable(
        squared_norms, l2_norm_clip, clip_function, clip_groups
    )

    def weighted(gradient, factor):
        # 0 * inf is NaN: what is not finite must be gone before any product.
        shape = [-1] + [1] * (gradient.shape.rank - 1)
        clean = tf.where(tf.reshape(finite, shape), gradient, tf.zeros_like(gradient))
        factor = factor * tf.cast(mask, norm_dtype)
        return tf.tensordot(tf.cast(factor, gradient.dtype), clean, axes=1)

    nonfinite = tf.reduce_sum(tf.cast(~finite & (tf.cast(mask, tf.float32) > 0), tf.int32))
    sums = [weighted(g, f) for g, f in zip(per_example_gradients, factors, strict=True)]
    return sums, nonfinite
