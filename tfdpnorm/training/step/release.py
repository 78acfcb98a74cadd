"""What an update releases: the noised clipped sum, over the public denominator."""

import tensorflow as tf

from tfdpnorm.gradients.clipping import accumulation_dtype
from tfdpnorm.layers import pull_back
from tfdpnorm.training.step.fingerprint import fingerprint


def private_gradients(clipped, trained, *, plan, noise, update, pulls_back, noised_statistics):
    """Noises a clipped sum and turns it into the gradients for the optimizer.

    (sum + N(0, (z C)^2)) / expected_batch_size, where the sum is over all measured variables taken
    as one vector and C is its sensitivity. What the sums were multiplied by for the clip is undone
    after the noise.

    Args:
        clipped: `tfdpnorm.training.step.lot_gradients.ClippedLot`.
        trained: The variables that the optimizer updates, the first of those that are measured.
        plan: `tfdpnorm.privacy.PrivacyPlan`, for z and the expected batch size.
        noise: `tfdpnorm.training.step.noise.GaussianNoise`.
        update: The number of this update.
        pulls_back: Whether the part of the gradient that comes through the public statistics is
            added, from the noised numbers (`tfdpnorm.layers.pull_back`).
        noised_statistics: `NoisedStatistics`, whose running averages are moved by what is released
            for them.

    Returns:
        List of tensors like `trained`.
    """
    sums, measured = clipped.sums, clipped.measured
    if plan.noise_multiplier > 0:
        stddev = plan.noise_multiplier * clipped.sensitivity
        # It could be drawn at any time; now the activations have left the memory that it takes.
        with tf.control_dependencies(sums):
            drawn = noise.draw([v.shape for v in measured], stddev, update, addends=sums)
        released = [
            s + tf.cast(n, accumulation_dtype(v))
            for s, n, v in zip(sums, drawn, measured, strict=True)
        ]
    else:
        noise.add_to_release(fingerprint(sums))
        released = sums
    if clipped.weights is not None:
        released = [r / w for r, w in zip(released, clipped.weights, strict=True)]
    noised_statistics.update_averages(released)
    gradients = released[: len(trained)]
    if pulls_back:
        by_variable = {v.ref(): g for v, g in zip(measured, released, strict=True)}
        through = pull_back(
            clipped.tape, clipped.statistics, lambda v: by_variable[v.ref()], trained
        )
        gradients = [g + tf.cast(t, g.dtype) for g, t in zip(gradients, through, strict=True)]
    return [g / tf.cast(plan.expected_batch_size, g.dtype) for g in gradients]
