"""One private update: the clipped sum over a lot, noise once, and the public denominator."""

import tensorflow as tf

from tfdpnorm.gradients import ClippedSum
from tfdpnorm.gradients.clipping import accumulation_dtype
from tfdpnorm.layers import pull_back
from tfdpnorm.training.step.fingerprint import fingerprint


def clipped_lot_sum(
    engine,
    make_loss_fn,
    lot,
    variables,
    *,
    l2_norm_clip,
    rows_mix=False,
    loss_scale=1.0,
    clip_weights=None,
    prepare=None,
    **options,
):
    """The clipped gradient sum over all physical batches of a lot.

    Args:
        engine: An engine (see `tfdpnorm.gradients.engines.registry`).
        make_loss_fn: Function from the `(x, mask)` of a physical batch to the engine's loss_fn for
            it.
        lot: `tfdpnorm.data.Lot` of [K, P, ...]; K physical batches of P rows.
        variables: What to differentiate by.
        l2_norm_clip: C.
        rows_mix: See `tfdpnorm.gradients.per_example`.
        loss_scale: Likewise.
        clip_weights: Likewise.
        prepare: Function of x that is applied to each physical batch, or None.
        **options: What the engine takes besides.

    Returns:
        A `ClippedSum`, its losses and predictions of [K * P, ...].
    """
    count = tf.shape(lot.mask)[0]

    def physical_sum(k):
        x, *others = tf.nest.map_structure(lambda t: t[k], tuple(lot))
        rows = (x if prepare is None else prepare(x), *others)
        return engine(
            make_loss_fn(x, rows[3]),
            rows,
            variables,
            l2_norm_clip,
            rows_mix=rows_mix,
            loss_scale=loss_scale,
            clip_weights=clip_weights,
            **options,
        )

    if lot.mask.shape[0] == 1:
        return physical_sum(0)

    # The first physical batch outside of the loop gives the others their shapes and dtypes.
    first = physical_sum(0)
    stacked = (first.losses, first.predictions)
    arrays = tf.nest.map_structure(
        lambda t: tf.TensorArray(t.dtype, size=count, element_shape=t.shape).write(0, t), stacked
    )

    def body(k, gradients, nonfinite, arrays):
        part = physical_sum(k)
        gradients = [a + b for a, b in zip(gradients, part.gradients, strict=True)]
        arrays = tf.nest.map_structure(
            lambda array, t: array.write(k, t), arrays, (part.losses, part.predictions)
        )
        return k + 1, gradients, nonfinite + part.nonfinite, arrays

    _, gradients, nonfinite, arrays = tf.while_loop(
        lambda k, *_: k < count,
        body,
        (tf.constant(1), first.gradients, first.nonfinite, arrays),
        parallel_iterations=1,  # one physical batch in memory; random layers draw in order
    )
    losses, predictions = tf.nest.map_structure(lambda array: array.concat(), arrays)
    return ClippedSum(gradients, losses, predictions, nonfinite)


def private_gradients(
    clipped,
    measured,
    trained,
    *,
    plan,
    noise,
    update,
    clip_weights=None,
    tape=None,
    statistics=None,
    noised_statistics=None,
):
    """Noises a clipped sum and turns it into the gradients for the optimizer.

    (sum + N(0, (z C)^2)) / expected_batch_size, where the sum is over all `measured` variables
    taken as one vector. With `statistics`, the part of the gradient that comes through the public
    statistics is added by `tfdpnorm.layers.pull_back`, from the noised numbers.

    Args:
        clipped: List of tensors, the clipped sum by `measured`.
        measured: The trained variables, followed by those that only the pull-back needs, and by
            running averages.
        trained: The variables that the optimizer updates.
        plan: `tfdpnorm.privacy.PrivacyPlan`.
        noise: `tfdpnorm.training.step.noise.GaussianNoise`.
        update: The number of this update.
        clip_weights: What the engine multiplied the gradients of each variable by; undone here,
            after the noise.
        tape: Tape of the public pass, with `statistics`.
        statistics: `PublicStatistics` of the public pass, or None for no pull-back.
        noised_statistics: `NoisedStatistics`, whose running
            averages are moved by what was released for them; or None.

    Returns:
        List of tensors like `trained`.
    """
    if plan.noise_multiplier > 0:
        stddev = plan.noise_multiplier * plan.l2_norm_clip
        # It could be drawn at any time; now the activations have left the memory that it takes.
        with tf.control_dependencies(clipped):
            drawn = noise.draw([v.shape for v in measured], stddev, update, addends=clipped)
        released = [
            c + tf.cast(n, accumulation_dtype(v))
            for c, n, v in zip(clipped, drawn, measured, strict=True)
        ]
    else:
        noise.add_to_release(fingerprint(clipped))
        released = clipped
    if clip_weights is not None:
        released = [r / w for r, w in zip(released, clip_weights, strict=True)]
    if noised_statistics is not None:
        noised_statistics.update_averages(released)
    gradients = released[: len(trained)]
    if statistics is not None:
        by_variable = {v.ref(): g for v, g in zip(measured, released, strict=True)}
        through = pull_back(tape, statistics, lambda v: by_variable[v.ref()], trained)
        gradients = [g + tf.cast(t, g.dtype) for g, t in zip(gradients, through, strict=True)]
    return [g / tf.cast(plan.expected_batch_size, g.dtype) for g in gradients]
