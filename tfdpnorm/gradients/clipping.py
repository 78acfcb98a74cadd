"""Clipping of per-example gradients, and the sum of the clipped gradients."""

from __future__ import annotations

import dataclasses
import math
import numbers
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfdpnorm import arguments
from tfdpnorm.choices import CLIP_GROUPINGS
from tfdpnorm.dtypes import at_least_float32
from tfdpnorm.gradients.contributions.arithmetic import sum_of_squares
from tfdpnorm.gradients.contributions.row_sums import RowSums

if TYPE_CHECKING:
    from collections.abc import Sequence


GROUPINGS = CLIP_GROUPINGS
CLIP_FUNCTIONS = ("abadi", "automatic")
AUTOMATIC_CLIPPING_STABILITY = 0.01
FLOAT16_LOSS_SCALE = 1024.0

# Beyond these, squares of ordinary gradients leave the range of float32.
_FACTOR_RANGE = (1e-6, 1e6)


@dataclasses.dataclass(frozen=True)
class Clipping:
    """How the gradient of each example is bounded before it enters the clipped sum.

    The gradient g of an example is a list of parts, one for each variable. Each part is multiplied
    by its weight; each group of parts is then clipped as one vector to C / sqrt(G), with G the
    number of groups.

    Formal guarantee: adding or removing one example changes the clipped sum, taken as one vector,
    by at most `sensitivity` = C in the L2 norm, whatever the example, the grouping, the function,
    the weights and the loss scale are. (With G groups: G (C / sqrt(G))^2 = C^2.) A gradient that is
    not finite counts as zero.

    Attributes:
        l2_norm_clip: C > 0; infinite for no clipping. None for that of the plan, in `make_private`.
        grouping: "flat": all parts are one group. "per_layer": those of one layer are a group
            (McMahan et al. 2018).
        function: One of `CLIP_FUNCTIONS`, see `clip_factors`.
        loss_scale: Factor on the loss during back-propagation, undone before the norm is taken, so
            that small gradients survive half precision. None for 1, or in `make_private` for 1024
            if the model computes in float16.
        groups: A number for each variable, the same for those of one group; None for one group.
            Set by `of_variables`.
        weights: A number > 0 for each variable, by which its part is multiplied before the norm is
            taken; None for 1. The clipped sum comes back multiplied. Set by `of_variables`.
        sums: `RowSums`, how the rows are added up.

    Raises:
        ValueError: for a value out of its range.

    Example::

        clipping = tfdpnorm.Clipping(grouping="per_layer")
        private = tfdpnorm.make_private(model, plan, clipping=clipping, public_batch=public_rows)
    """

    l2_norm_clip: float | None = None
    grouping: str = "flat"
    function: str = "abadi"
    loss_scale: float | None = None
    groups: tuple | None = None
    weights: tuple | None = None
    sums: RowSums = RowSums()

    def __post_init__(self):
        arguments.choice("grouping", self.grouping, GROUPINGS)
        arguments.choice("function", self.function, CLIP_FUNCTIONS)
        if self.loss_scale is not None:
            scale = float32_factor("loss_scale", self.loss_scale)
            object.__setattr__(self, "loss_scale", scale)
        if self.l2_norm_clip is None:
            return
        norm = arguments.positive("l2_norm_clip", self.l2_norm_clip, allow_inf=True)
        object.__setattr__(self, "l2_norm_clip", norm)
        if self.function == "automatic" and math.isinf(norm):
            raise ValueError(
                'Expected a finite l2_norm_clip with function="automatic", got inf. Use '
                'function="abadi" to train without clipping.'
            )

    @classmethod
    def of(cls, clipping: Clipping | float) -> Clipping:
        """Returns a `Clipping` with its loss scale, and for a number C the flat one with that norm.

        Args:
            clipping: `Clipping`, or the norm C.

        Returns:
            A `Clipping` with a norm and a loss scale.

        Raises:
            ValueError: for a clipping without a norm.
        """
        if isinstance(clipping, numbers.Real):
            clipping = cls(clipping)
        if clipping.l2_norm_clip is None:
            raise ValueError("Expected a Clipping with an l2_norm_clip, got None. Pass a number.")
        scale = 1.0 if clipping.loss_scale is None else clipping.loss_scale
        return dataclasses.replace(clipping, loss_scale=scale)

    def of_plan(self, plan: Any, *, in_half: bool) -> Clipping:
        """Returns the clipping of a private training.

        Args:
            plan: `tfdpnorm.privacy.PrivacyPlan`, whose noise goes by its own norm.
            in_half: Whether the model computes in float16.

        Returns:
            A `Clipping` with the plan's norm and a loss scale.

        Raises:
            ValueError: if the norm differs from the plan's.
        """
        if self.l2_norm_clip not in (None, plan.l2_norm_clip):
            raise ValueError(
                "Expected a Clipping without l2_norm_clip, or with the plan's "
                f"{plan.l2_norm_clip:g}, got {self.l2_norm_clip:g}. The noise is scaled to the "
                "plan's norm: set it in make_plan."
            )
        scale = self.loss_scale
        if scale is None:
            scale = FLOAT16_LOSS_SCALE if in_half else 1.0
        return dataclasses.replace(self, l2_norm_clip=plan.l2_norm_clip, loss_scale=scale)

    @property
    def sensitivity(self) -> float:
        """How far adding or removing one example can move the clipped sum, in the L2 norm."""
        return self.l2_norm_clip

    @property
    def is_plain(self) -> bool:
        """Whether it is what tensorflow-privacy does: min(1, C / norm) of the whole gradient."""
        return (self.grouping, self.function) == ("flat", "abadi")

    def of_variables(
        self, *, layers: Sequence[int] | None = None, weights: Sequence[float] | None = None
    ) -> Clipping:
        """Returns the clipping for given variables.

        Args:
            layers: A number for each variable, that of the layer that owns it; read only by
                "per_layer".
            weights: A number > 0 for each variable, by which its part is multiplied; None for 1.

        Returns:
            A `Clipping` with these groups and weights.
        """
        groups = tuple(layers) if self.grouping == "per_layer" else None
        weights = None if weights is None else tuple(weights)
        return dataclasses.replace(self, groups=groups, weights=weights)

    def weights_of(self, variables: Sequence[tf.Variable]) -> list[float]:
        """The list of weights, one for each of `variables`."""
        return list(self.weights or [1.0] * len(variables))

    def factors(self, squared_norms: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor]:
        """The clip factors of gradients that consist of several variables' parts.

        Args:
            squared_norms: List of [rows], one for each variable, of the weighted parts.

        Returns:
            Pair of the list of factors, [rows] for each variable, and [rows], bool: which rows are
            finite in all of their parts. The factors of the other rows are 0.

        Raises:
            ValueError: for per-layer clipping without `groups`.
        """
        if self.groups is None and self.grouping == "per_layer":
            raise ValueError(
                'Expected the layer of each variable with clipping="per_layer", got None. Use '
                "Clipping.of_variables."
            )
        groups = self.groups or (0,) * len(squared_norms)
        of_group = {}
        for group, norms in zip(groups, squared_norms, strict=True):
            of_group.setdefault(group, []).append(norms)
        totals = {group: _added_up(norms) for group, norms in of_group.items()}
        finite = tf.math.is_finite(tf.add_n(list(totals.values())))
        share = self.l2_norm_clip / math.sqrt(len(totals))
        factors = {
            group: clip_factors(tf.where(finite, total, np.inf), share, self.function)
            for group, total in totals.items()
        }
        return [factors[group] for group in groups], finite


def _added_up(squared_norms):
    """The sum of norms [rows], and what rounding may take away here and until a row is scaled."""
    unit = np.finfo(squared_norms[0].dtype.as_numpy_dtype).eps / 2
    return tf.add_n(squared_norms) * (1 + (len(squared_norms) + 32) * unit)


def float32_factor(name: str, value: float) -> float:
    """Checks a number that gradients are multiplied by in float32, and returns it as a float."""
    return arguments.within(
        name,
        value,
        *_FACTOR_RANGE,
        remedy="Outside of it, squares of gradients leave the range of float32, and clipping "
        "would bound nothing.",
    )


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
    return at_least_float32(variable.dtype)


def clip_factors(
    squared_norms: tf.Tensor, l2_norm_clip: float, clip_function: str = "abadi"
) -> tf.Tensor:
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


def clipped_sum(
    per_example_gradients: Sequence[tf.Tensor], mask: tf.Tensor, clipping: Clipping | float
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Clips each row's gradient and adds the rows up.

    Args:
        per_example_gradients: List of [rows, *variable.shape].
        mask: [rows], 1.0 for a row of the batch, 0.0 for padding.
        clipping: `Clipping`, or C for the flat one. Its weights are applied here; its loss scale
            is the caller's to undo.

    Returns:
        Pair of the list of summed gradients, *variable.shape each, and the scalar int32 number of
        unmasked rows whose gradient is not finite (they count as zero).
    """
    clipping = Clipping.of(clipping)
    gradients = per_example_gradients
    if clipping.weights is not None:
        gradients = [g * w for g, w in zip(gradients, clipping.weights, strict=True)]
    wide = any(g.dtype == tf.float64 for g in gradients)
    norm_dtype = tf.float64 if wide else tf.float32
    squared_norms = [tf.cast(sum_of_squares(g), norm_dtype) for g in gradients]
    factors, finite = clipping.factors(squared_norms)

    def weighted(gradient, factor):
        # 0 * inf is NaN: what is not finite must be gone before any product.
        shape = [-1] + [1] * (gradient.shape.rank - 1)
        clean = tf.where(tf.reshape(finite, shape), gradient, tf.zeros_like(gradient))
        factor = factor * tf.cast(mask, norm_dtype)
        total = clipping.sums.weighted(clean, tf.cast(factor, gradient.dtype))
        return tf.cast(total, gradient.dtype)

    nonfinite = tf.reduce_sum(tf.cast(~finite & (tf.cast(mask, tf.float32) > 0), tf.int32))
    sums = [weighted(g, f) for g, f in zip(gradients, factors, strict=True)]
    return sums, nonfinite
