"""The clipped gradient sum by book-keeping: one forward and one backward pass for all rows."""

import tensorflow as tf

from tfdpnorm.gradients.clipping import ClippedSum, accumulation_dtype, clip_factors
from tfdpnorm.gradients.per_example import check_connected
from tfdpnorm.gradients.taps import Taps


def book_keeping(
    model,
    loss_fn,
    rows,
    variables,
    l2_norm_clip,
    *,
    rows_mix=False,
    loss_scale=1.0,
    clip_weights=None,
):
    """The clipped gradient sum, from the inputs of each layer and the gradients of its outputs.

    Rows do not mix, so that the gradient of the *sum* of the losses by a layer's output z holds
    the gradient of each row's loss. With the layer's input, a rule per layer type gives from it
    the norm of each row's gradient and, once the clip factors are known, the weighted sum. No
    gradient is held for each row but where that is cheaper.

    Args:
        model: The Keras model that `loss_fn` runs.
        loss_fn: As in `tfdpnorm.gradients.per_example`, like the other arguments.
        rows: Likewise.
        variables: Likewise.
        l2_norm_clip: Likewise.
        rows_mix: Must be False.
        loss_scale: Likewise.
        clip_weights: Likewise.

    Returns:
        A `ClippedSum`.

    Raises:
        ValueError: for layers without a rule, variables that the loss does not depend on, and
            `rows_mix`.

    Reference:
        Goodfellow (2015) for the norms of dense layers; Bu et al. (2023), "Differentially private
        optimization on large model at small cost", for the book-keeping.
    """
    if rows_mix:
        raise ValueError(
            'Expected statistics other than "lot" with engine="book_keeping", which presumes that '
            'rows do not mix. Use engine="per_example", or statistics_gradient="stop".'
        )
    if rows[-1].shape[0] == 0:
        # Convolutions of TensorFlow give an empty batch a wrong shape: run one row of padding.
        rows = tf.nest.map_structure(lambda t: tf.zeros([1, *t.shape[1:]], t.dtype), rows)
        padded = book_keeping(model, loss_fn, rows, variables, l2_norm_clip)
        losses, predictions = tf.nest.map_structure(
            lambda t: t[:0], (padded.losses, padded.predictions)
        )
        return padded._replace(losses=losses, predictions=predictions)
    x, y, sample_weight, mask = rows
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        with Taps(model, variables).attached(tape) as taps:
            losses, predictions = loss_fn(x, y, sample_weight)
        # Padding has no say, and an infinite loss of one row must not reach the others' sum.
        scaled = tf.where(mask > 0, losses, tf.zeros_like(losses)) * tf.cast(
            loss_scale, losses.dtype
        )
    watched = [z for tap in taps.calls for z in tap.watched]
    _check_rows(taps.calls, mask)
    gradients = tape.gradient(scaled, watched)
    merged = _merged_contributions(taps.calls, gradients, variables)
    weights = clip_weights or [1.0] * len(merged)
    squared_norms = tf.add_n(
        [weight**2 * part.squared_norms() for weight, part in zip(weights, merged, strict=True)]
    )
    # The same at run time, where the number of rows is not known before.
    count = tf.shape(mask)[0]
    with tf.control_dependencies([tf.debugging.assert_equal(tf.shape(squared_norms)[0], count)]):
        squared_norms = squared_norms / loss_scale**2
    finite = tf.math.is_finite(squared_norms)
    factors = clip_factors(squared_norms, l2_norm_clip) * tf.cast(mask, squared_norms.dtype)
    factors = factors / loss_scale
    sums = [
        tf.cast(part.weighted_sum(weight * factors, finite), accumulation_dtype(variable))
        for weight, part, variable in zip(weights, merged, variables, strict=True)
    ]
    nonfinite = tf.reduce_sum(tf.cast(~finite & (mask > 0), tf.int32))
    return ClippedSum(sums, losses, predictions, nonfinite)


def _check_rows(calls, mask):
    """Refuses layers that run on other rows than the batch's.

    Norms by such rows would be broadcast against the mask: parts of one example's gradient would
    be clipped one by one, and their sum exceed the clip.
    """
    for tap in calls:
        for z in tap.watched:
            if z.shape[0] != mask.shape[0]:
                raise ValueError(
                    f"Expected layer {tap.layer.name!r} to give {mask.shape[0]} rows, one per "
                    f"example, got shape {tuple(z.shape)} (inside TimeDistributed, or beside "
                    'public rows in mode "example"). Use engine="per_example" for this model.'
                )


def _merged_contributions(calls, gradients, variables):
    """One contribution per variable: several calls of a layer are merged before any norm."""
    found = {}
    gradients = iter(gradients)
    for tap in calls:
        own = [next(gradients) for _ in tap.watched]
        if any(gradient is None for gradient in own):
            continue  # this call does not reach the loss
        for variable, part in tap.rule.contributions(tap.layer, tap.remembered, own):
            key = variable.ref()
            found[key] = found[key].merged(part) if key in found else part
    check_connected([found.get(v.ref()) for v in variables], variables)
    return [found[v.ref()] for v in variables]
