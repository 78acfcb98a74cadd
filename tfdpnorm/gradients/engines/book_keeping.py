"""The clipped gradient sum by book-keeping: one forward and one backward pass for all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from tfdpnorm.gradients.clipping import ClippedSum, Clipping, accumulation_dtype
from tfdpnorm.gradients.engines.per_example import check_connected
from tfdpnorm.gradients.refusals import refusal_of_engine
from tfdpnorm.gradients.taps import Taps
from tfdpnorm.keras_compat.variables import raw

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tensorflow import keras


class BookKept(NamedTuple):
    """The tensors that book-keeping computes a clipped sum from, for who examines them.

    Attributes:
        losses: [rows].
        calls: List of `tfdpnorm.gradients.taps.Tap`.
        gradients: Those by what the taps watched, in order; None for what no loss depends on. None
            instead of the list until they are known.
        squared_norms: List of [rows], one for each variable, before the loss scale is undone; None
            until they are known.
    """

    losses: Any
    calls: list
    gradients: list | None = None
    squared_norms: list | None = None


def book_keeping(
    model: keras.Model,
    loss_fn: Callable,
    rows: tuple,
    variables: Sequence[tf.Variable],
    clipping: Clipping | float,
    *,
    rows_per_example: int = 1,
    broadcast: Collection = (),
    observe: Callable[[BookKept], None] | None = None,
    unreached: list | None = None,
) -> ClippedSum:
    """The clipped sum, from the inputs of each layer and the gradients of its outputs.

    No row changes the gradient of another, so that the gradient of the *sum* of the losses by a
    layer's output z holds the gradient of each row's loss. From it and the layer's input, a rule
    for each layer type computes the norm of each row's gradient and, once the clip factors are
    known, the weighted sum. A gradient per row is held only where that is cheaper.

    Args:
        model: The Keras model that `loss_fn` runs. Its examples must not change each other's
            gradients.
        loss_fn: Function `(x, y, sample_weight) -> (losses [rows], predictions)`.
        rows: Tuple `(x, y, sample_weight, mask)` of [rows, ...].
        variables: The variables to differentiate by.
        clipping: `tfdpnorm.gradients.Clipping`, or a number C.
        rows_per_example: How many consecutive rows `loss_fn` runs the model on for each row of x:
            the K views of an example, say. Their gradients add up before the norm is taken.
        broadcast: Collection of layers whose output reads no example and is broadcast to all, as
            that of an embedding of positions is: each example gets a copy of it.
        observe: Function that is called with the `BookKept` of this pass, once after the forward
            pass and once with everything; None for none.
        unreached: List that variables are added to that the loss does not depend on, whose sum is
            zero; None rejects them.

    Returns:
        A `ClippedSum`.

    Raises:
        ValueError: for layers without a rule, and as `per_example` for variables that the loss
            does not depend on.

    Reference:
        Goodfellow (2015) for the norms of dense layers; Bu et al. (2023), "Differentially private
        optimization on large model at small cost", for the book-keeping.
    """
    clipping, variables = Clipping.of(clipping), raw(list(variables))
    if rows[-1].shape[0] == 0:
        # Convolutions of TensorFlow give an empty batch a wrong shape: run one row of padding.
        rows = tf.nest.map_structure(lambda t: tf.zeros([1, *t.shape[1:]], t.dtype), rows)
        padded = book_keeping(
            model,
            loss_fn,
            rows,
            variables,
            clipping,
            rows_per_example=rows_per_example,
            broadcast=broadcast,
            observe=observe,
            unreached=unreached,
        )
        losses, predictions = tf.nest.map_structure(
            lambda t: t[:0], (padded.losses, padded.predictions)
        )
        return padded._replace(losses=losses, predictions=predictions)
    x, y, sample_weight, mask = rows
    examples = tf.shape(mask)[0] if mask.shape[0] is None else mask.shape[0]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        taps = Taps(model, variables, rows_per_example, broadcast, examples)
        with taps.attached(tape):
            losses, predictions = loss_fn(x, y, sample_weight)
        # Padding does not count, and an infinite loss of one row must not reach the others' sum.
        scaled = tf.where(mask > 0, losses, tf.zeros_like(losses)) * tf.cast(
            clipping.loss_scale, losses.dtype
        )
    observe = observe or (lambda kept: None)
    observe(BookKept(losses, taps.calls))
    watched = [z for tap in taps.calls for z in tap.watched]
    assertions = _check_rows(taps.calls, mask)
    # Lookups give indexed slices.
    gradients = [
        None if b is None else tf.convert_to_tensor(b) for b in tape.gradient(scaled, watched)
    ]
    merged = _merged_contributions(taps.calls, gradients, variables, unreached)
    weights, loss_scale = clipping.weights_of(variables), clipping.loss_scale
    squared_norms = [
        tf.zeros_like(mask) if part is None else weight**2 * part.squared_norms()
        for weight, part in zip(weights, merged, strict=True)
    ]
    for norms in squared_norms:
        # Checked at run time, where the number of rows is not known before.
        if norms.shape[0] is None or norms.shape[0] != mask.shape[0]:
            assertions.append(tf.debugging.assert_equal(tf.shape(norms)[0], examples))
    observe(BookKept(losses, taps.calls, gradients, squared_norms))
    wide = any(norms.dtype == tf.float64 for norms in squared_norms)
    with tf.control_dependencies(assertions):
        squared_norms = [
            tf.cast(norms / loss_scale**2, tf.float64 if wide else tf.float32)
            for norms in squared_norms
        ]
    factors, finite = clipping.factors(squared_norms)
    sums = []
    for part, factor, weight, variable in zip(merged, factors, weights, variables, strict=True):
        factor = weight / loss_scale * factor * tf.cast(mask, factor.dtype)
        dtype = accumulation_dtype(variable)
        if part is None:
            sums.append(tf.zeros(variable.shape, dtype))
            continue
        total = part.weighted_sum(tf.cast(factor, dtype), finite, clipping.sums)
        sums.append(tf.cast(total, dtype))
    nonfinite = tf.reduce_sum(tf.cast(~finite & (mask > 0), tf.int32))
    return ClippedSum(sums, losses, predictions, nonfinite)


def _check_rows(calls, mask):
    """Rejects layers that run on other rows than the batch's, or than a wrapper's rule says.

    Norms by such rows would be broadcast against the mask: parts of one example's gradient would be
    clipped one by one, and their sum exceed the clip. Returns assertions that check at run time the
    numbers that are not known before.
    """
    count = mask.shape[0]
    assertions = []
    for tap in calls:
        expected = None if count is None else count * tap.rows_per_example
        for z in tap.watched:
            if None not in (z.shape[0], expected) and z.shape[0] != expected:
                raise refusal_of_engine(
                    f"Layer {tap.layer.name!r} gives shape {tuple(z.shape)} for {count} examples: "
                    "it reads no example, or folds another axis into theirs"
                )
            if None in (z.shape[0], expected):
                rows = tf.shape(mask)[0] * tap.rows_per_example
                assertions.append(tf.debugging.assert_equal(tf.shape(z)[0], rows))
    return assertions


def _merged_contributions(calls, gradients, variables, unreached):
    """One contribution per variable: several calls of a layer are merged before any norm.

    It is None for a variable that the loss does not depend on.
    """
    found = {}
    gradients = iter(gradients)
    for tap in calls:
        own = [next(gradients) for _ in tap.watched]
        if all(gradient is None for gradient in own):
            continue  # this call does not reach the loss
        own = [tf.zeros_like(z) if b is None else b for z, b in zip(tap.watched, own, strict=True)]
        for variable, part in tap.rule.contributions(tap.layer, tap.remembered, own):
            if tap.rows_per_example > 1:
                part = part.grouped(tap.rows_per_example)
            key = raw(variable).ref()
            found[key] = found[key].merged(part) if key in found else part
    merged = [found.get(v.ref()) for v in variables]
    check_connected(merged, variables, unreached)
    return merged
