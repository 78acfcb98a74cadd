"""What an update releases: the noised clipped sum, over the public denominator."""

import tensorflow as tf

from tfdpnorm.layers import pull_back
from tfdpnorm.training.step.shrinkage import shrunk


def private_gradients(
    clipped, trained, *, plan, noise, update, pulls_back, noised_statistics, shrinks=False
):
    """Noises a clipped sum and turns it into the gradients for the optimizer.

    (sum + N(0, (z S)^2)) / expected_batch_size, where the sum is over all measured variables taken
    as one vector and S is its sensitivity: C, and what rounding adds. By default the numerator is
    rounded to a grid (`tfdpnorm.training.step.exact_noise`). What the sums were multiplied by for
    the clip is undone after the noise.

    Args:
        clipped: `tfdpnorm.training.step.lot_gradients.ClippedLot`.
        trained: The variables that the optimizer updates, the first of those that are measured.
        plan: `tfdpnorm.privacy.PrivacyPlan`, for z and the expected batch size.
        noise: `tfdpnorm.training.step.noise.GaussianNoise`.
        update: The number of this update's noise, of `GaussianNoise.next_number`.
        pulls_back: Whether the part of the gradient that comes through the public statistics is
            added, from the noised numbers (`tfdpnorm.layers.pull_back`).
        noised_statistics: `NoisedStatistics`, whose running averages are moved by what is released
            for them.
        shrinks: Whether the noised numbers are shrunk before they are pulled back.

    Returns:
        List of tensors like `trained`, and None for the gradient of a variable that the loss does
        not depend on: its sum is zero for any lot, so that there is nothing to hide, and noise
        would only spoil weights that are used elsewhere. Keras leaves them as they are, too.
    """
    sums, measured = clipped.sums, clipped.measured
    sums = [tf.ensure_shape(s, v.shape) for s, v in zip(sums, measured, strict=True)]
    stddev = plan.noise_multiplier * clipped.sensitivity if plan.noise_multiplier > 0 else 0.0
    released = noise.noised(sums, stddev, update) if stddev else sums
    if clipped.weights is not None:
        released = [r / w for r, w in zip(released, clipped.weights, strict=True)]
    noised_statistics.update_averages(released)
    unreached = {v.ref() for v in clipped.unreached}
    gradients = [
        tf.zeros_like(g) if v.ref() in unreached else g
        for v, g in zip(trained, released[: len(trained)], strict=True)
    ]
    if pulls_back:
        weights = clipped.weights or [1.0] * len(measured)
        read = {v.ref(): (g, w) for v, g, w in zip(measured, released, weights, strict=True)}

        def gradient_of(variable):
            gradient, weight = read[variable.ref()]
            return shrunk(gradient, stddev / weight) if shrinks else gradient

        through = pull_back(clipped.tape, clipped.statistics, gradient_of, trained)
        gradients = [g + tf.cast(t, g.dtype) for g, t in zip(gradients, through, strict=True)]
    elif unreached:
        pairs = zip(trained, gradients, strict=True)
        gradients = [None if v.ref() in unreached else g for v, g in pairs]
    return [
        None if g is None else g / tf.cast(plan.expected_batch_size, g.dtype) for g in gradients
    ]
