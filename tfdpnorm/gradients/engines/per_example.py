"""Per-example gradients by vectorising the gradient of one example over the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from tfdpnorm.gradients.clipping import ClippedSum, Clipping, accumulation_dtype, clipped_sum
from tfdpnorm.gradients.map_rows import jacobian_of_rows, map_rows
from tfdpnorm.keras_compat.variables import raw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def per_example(
    loss_fn: Callable,
    rows: tuple,
    variables: Sequence[tf.Variable],
    clipping: Clipping | float,
    *,
    rows_mix: bool = False,
    unreached: list | None = None,
) -> ClippedSum:
    """The clipped sum, from one explicit gradient per row.

    Takes rows x parameters numbers of memory: choose the physical batch accordingly. An op that
    TensorFlow cannot vectorise (the loop of a stock LSTM or GRU) makes this a loop over the rows,
    with a warning: the same result, later. A batch without rows gives sums of zero.

    Args:
        loss_fn: Function `(x, y, sample_weight) -> (losses [rows], predictions)`.
        rows: Tuple `(x, y, sample_weight, mask)`, structures of [rows, ...]; a row whose mask is 0
            is padding.
        variables: The variables to differentiate by. May hold untrained ones that `loss_fn` reads.
        clipping: `tfdpnorm.gradients.Clipping`, or a number C for flat clipping to that norm.
        rows_mix: Whether the loss of a row depends on the other rows (statistics mode "lot" with
            the full gradient). Then gradients are rows of the Jacobian of the whole batch, at a
            cost that is quadratic in the rows, and the sensitivity of the sum is NOT bounded by C.
        unreached: List that the variables are added to that the loss does not depend on, whose sum
            is zero whatever the rows hold; None rejects them.

    Returns:
        A `ClippedSum`.

    Raises:
        ValueError: naming the variables that the loss does not depend on, if it depends on none of
            them or `unreached` is None.
    """
    clipping, variables = Clipping.of(clipping), raw(list(variables))
    x, y, sample_weight, mask = rows
    if rows_mix:
        gradients, losses, predictions = _jacobian(
            loss_fn, x, y, sample_weight, variables, unreached
        )
    else:
        gradients, losses, predictions = _vectorized(
            loss_fn, x, y, sample_weight, variables, clipping.loss_scale, unreached
        )
    gradients, nonfinite = clipped_sum(gradients, mask, clipping)
    return ClippedSum(gradients, losses, predictions, nonfinite)


def check_connected(gradients, variables, unreached=None):
    """Rejects variables whose gradient is None, or adds them to the list `unreached`.

    If no variable has a gradient they are rejected anyway: nothing would be trained.
    """
    missing = [v for v, g in zip(variables, gradients, strict=True) if g is None]
    if missing and (unreached is None or len(missing) == len(variables)):
        some = "every" if unreached is None else "some"
        raise ValueError(
            f"Expected the loss to depend on {some} trainable variable, got no gradient for "
            f"{[v.name for v in missing]}. Freeze the layers that own them "
            "(layer.trainable = False) or remove them."
        )
    known = {v.ref() for v in unreached or ()}
    if missing:
        unreached += [v for v in missing if v.ref() not in known]


def _vectorized(loss_fn, x, y, sample_weight, variables, loss_scale, unreached):
    def one(row):
        single = tf.nest.map_structure(lambda t: tf.expand_dims(t, 0), row)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            losses, predictions = loss_fn(*single)
            scaled = losses[0] * tf.cast(loss_scale, losses.dtype)
        gradients = tape.gradient(scaled, variables)
        check_connected(gradients, variables, unreached)
        gradients = [
            tf.zeros(v.shape, accumulation_dtype(v))
            if g is None
            else tf.cast(tf.convert_to_tensor(g), accumulation_dtype(v)) / loss_scale
            for g, v in zip(gradients, variables, strict=True)
        ]
        return gradients, losses[0], tf.nest.map_structure(lambda t: t[0], predictions)

    return map_rows(one, (x, y, sample_weight))


def _jacobian(loss_fn, x, y, sample_weight, variables, unreached):
    with tf.GradientTape(watch_accessed_variables=False, persistent=True) as tape:
        tape.watch(variables)
        losses, predictions = loss_fn(x, y, sample_weight)
    if losses.shape[0] == 0:
        # TensorFlow gives the Jacobian of nothing a wrong shape.
        check_connected(tape.gradient(losses, variables), variables, unreached)
        gradients = [tf.zeros([0, *v.shape], v.dtype) for v in variables]
    else:
        gradients = jacobian_of_rows(tape, losses, variables)
        check_connected(gradients, variables, unreached)
        gradients = [
            tf.zeros([tf.shape(losses)[0], *v.shape], v.dtype) if g is None else g
            for g, v in zip(gradients, variables, strict=True)
        ]
    gradients = [
        tf.cast(g, accumulation_dtype(v)) for g, v in zip(gradients, variables, strict=True)
    ]
    return gradients, losses, predictions
