"""The clipped sum over all physical batches of a lot."""

import tensorflow as tf

from tfdpnorm.gradients import ClippedSum


def sum_over_lot(physical_sum, lot):
    """Adds up the clipped sums of the physical batches of a lot.

    Args:
        physical_sum: Function from the `(x, y, sample_weight, mask)` of a physical batch to its
            `ClippedSum`.
        lot: `tfdpnorm.data.Lot` of [K, P, ...]; K physical batches of P rows.

    Returns:
        A `ClippedSum`, its losses and predictions of [K * P, ...].
    """
    count = tf.shape(lot.mask)[0]

    def part_of(k):
        return physical_sum(*tf.nest.map_structure(lambda t: t[k], tuple(lot)))

    if lot.mask.shape[0] == 1:
        return part_of(0)

    def wide(gradients):
        return [tf.cast(g, tf.float64) for g in gradients]

    def written(arrays, k, part):
        return tf.nest.map_structure(
            lambda array, t: array.write(k, t), arrays, (part.losses, part.predictions)
        )

    like = getattr(physical_sum, "structured_outputs", None)
    if like is not None and all(g.shape.is_fully_defined() for g in like.gradients):
        # A function that was traced says what it gives: one call of it makes a smaller graph.
        start, begun = 0, [tf.zeros(g.shape, tf.float64) for g in like.gradients]
        nonfinite = tf.zeros(like.nonfinite.shape, like.nonfinite.dtype)
    else:
        # The first physical batch outside of the loop gives the others their shapes and dtypes.
        like = part_of(0)
        start, begun, nonfinite = 1, wide(like.gradients), like.nonfinite
    arrays = tf.nest.map_structure(
        lambda t: tf.TensorArray(t.dtype, size=count, element_shape=t.shape),
        (like.losses, like.predictions),
    )
    if start:
        arrays = written(arrays, 0, like)

    def body(k, gradients, nonfinite, arrays):
        part = part_of(k)
        gradients = [a + b for a, b in zip(gradients, wide(part.gradients), strict=True)]
        return k + 1, gradients, nonfinite + part.nonfinite, written(arrays, k, part)

    _, gradients, nonfinite, arrays = tf.while_loop(
        lambda k, *_: k < count,
        body,
        (tf.constant(start), begun, nonfinite, arrays),
        parallel_iterations=1,  # one physical batch in memory; random layers draw in order
    )
    # In float64 above, so that many physical batches do not round more than one.
    gradients = [tf.cast(g, t.dtype) for g, t in zip(gradients, like.gradients, strict=True)]
    losses, predictions = tf.nest.map_structure(lambda array: array.concat(), arrays)
    return ClippedSum(gradients, losses, predictions, nonfinite)
