"""Per-example gradients by vectorising the gradient of one example over the batch."""

import tensorflow as tf

from tfdpnorm.gradients.clipping import ClippedSum, Clipping, accumulation_dtype, clipped_sum
from tfdpnorm.gradients.map_rows import map_rows


def per_example(loss_fn, rows, variables, clipping, *, rows_mix=False):
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

    Returns:
        A `ClippedSum`.

    Raises:
        ValueError: naming the variables that the loss does not depend on.
    """
    clipping = Clipping.of(clipping)
    x, y, sample_weight, mask = rows
    if rows_mix:
        gradients, losses, predictions = _jacobian(loss_fn, x, y, sample_weight, variables)
    else:
        gradients, losses, predictions = _vectorized(
            loss_fn, x, y, sample_weight, variables, clipping.loss_scale
        )
    gradients, nonfinite = clipped_sum(gradients, mask, clipping)
    return ClippedSum(gradients, losses, predictions, nonfinite)


def check_connected(gradients, variables):
    """Raises ValueError naming the variables whose gradient is None."""
    missing = [v.name for v, g in zip(variables, gradients, strict=True) if g is None]
    if missing:
        raise ValueError(
            f"Expected the loss to depend on every trainable variable, got no gradient for "
            f"{missing}. Freeze the layers that own them (layer.trainable = False) or remove them."
        )


def _vectorized(loss_fn, x, y, sample_weight, variables, loss_scale):
    def one(row):
        single = tf.nest.map_structure(lambda t: tf.expand_dims(t, 0), row)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            losses, predictions = loss_fn(*single)
            scaled = losses[0] * tf.cast(loss_scale, losses.dtype)
        gradients = tape.gradient(scaled, variables)
        check_connected(gradients, variables)
        gradients = [
            tf.cast(tf.convert_to_tensor(g), accumulation_dtype(v)) / loss_scale
            for g, v in zip(gradients, variables, strict=True)
        ]
        return gradients, losses[0], tf.nest.map_structure(lambda t: t[0], predictions)

    return map_rows(one, (x, y, sample_weight))


def _jacobian(loss_fn, x, y, sample_weight, variables):
    with tf.GradientTape(watch_accessed_variables=False, persistent=True) as tape:
        tape.watch(variables)
        losses, predictions = loss_fn(x, y, sample_weight)
    if losses.shape[0] == 0:
        # TensorFlow gives the Jacobian of nothing a wrong shape.
        check_connected(tape.gradient(losses, variables), variables)
        gradients = [tf.zeros([0, *v.shape], v.dtype) for v in variables]
    else:
        gradients = tape.jacobian(losses, variables)
        check_connected(gradients, variables)
    gradients = [
        tf.cast(g, accumulation_dtype(v)) for g, v in zip(gradients, variables, strict=True)
    ]
    return gradients, losses, predictions
