"""One update, top to bottom: from a batch in its slots to the step of the optimizer.

    batch [K, P, ...]           the drawn examples in random slots, the other slots are padding
    -> public pass              moments of the public rows, for the layers that take them
    -> forward pass, taps       one physical batch [P, ...] at a time; engine and verification
    -> norms, clipped sum       each example's gradient is clipped; summed over physical batches,
                                on one device or on each its share of them
    -> running averages         their sums join the vector, within the same sensitivity
    -> noise on the grid        once, on the whole vector
    -> factors undone           what the clip weighed parts of the vector by
    -> pull-back                the gradient through the public statistics, from noisy numbers
    -> expected batch size      a public divisor
    -> regularisers, optimizer  functions of weights and noisy gradients

All that leaves an update is in one `Outputs`. A ledger that has the update written down before this
runs is `tfdpnorm.training.announced_updates`'s part.
"""

from typing import NamedTuple

import tensorflow as tf

from tfdpnorm.gradients import ClippedSum
from tfdpnorm.independence import check_no_added_losses
from tfdpnorm.keras_compat.graphs import operation_count, tensors_since
from tfdpnorm.keras_compat.models import layer_numbers, weights_are_in_the_graph_of_layers
from tfdpnorm.keras_compat.training import apply_gradients
from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.layers import PublicStatistics, pull_back
from tfdpnorm.training.metrics import Shown
from tfdpnorm.training.noised_statistics import NoisedStatistics
from tfdpnorm.training.physical_batches import PhysicalBatches
from tfdpnorm.training.post_processing import (
    added_gradients,
    regularization_gradients,
    shrunk,
)
from tfdpnorm.training.replicas import OneDevice


class ClippedBatch(NamedTuple):
    """The sums of a batch that an update will release. **Not private yet.**

    Attributes:
        total: `ClippedSum` by the measured variables, with losses and predictions.
        sums: List of tensors that are noised together.
        sensitivity: How far adding or removing one example can move `sums`, taken as one vector,
            in the L2 norm, unless no guarantee holds: C, and an allowance for rounding.
        measured: What they are by: the trained variables, those that only the pull-back reads, and
            running averages.
        weights: What each sum was multiplied by for the clip, or None.
        tape: Tape of the public pass.
        statistics: `PublicStatistics` of the public pass, or None.
        unreached: List of the measured variables that the loss does not depend on: their sums are
            zero for any batch.
    """

    total: ClippedSum
    sums: list
    sensitivity: float
    measured: list
    weights: list | None
    tape: tf.GradientTape
    statistics: PublicStatistics | None
    unreached: list = ()


class Outputs(NamedTuple):
    """All that leaves an update, besides running averages, which are moved by noisy sums.

    Attributes:
        gradients: For the optimizer: **noisy**, plus what the regularisers add. List of tensors
            like the trained variables; None for one that the loss does not depend on.
        losses: [K * P], **not private**: for metrics only.
        predictions: `Shown` of [K * P, ...], **not private**: for metrics only.
        nonfinite: Number of gradients that were not finite, **not private**: for metrics only.
        penalty: What the regularisers add to the loss; a function of the weights.
    """

    gradients: list
    losses: tf.Tensor
    predictions: Shown
    nonfinite: tf.Tensor
    penalty: tf.Tensor


class Update:
    """Makes the updates of a model that is trained privately.

    Args:
        parts: What has `streams` (`tfdpnorm.training.public_rows.Streams`), `views`, `engine` (an
            `EngineInUse`) and `clipping` (of no variables yet).
        sum_rounding: What rounding can add to the sensitivity, relative to it (see
            `tfdpnorm.gradients.contributions.row_sums`).
        replicas: `tfdpnorm.training.replicas.Replicas`, that the physical batches are shared among;
            None for one device.
    """

    def __init__(self, model, parts, plan, sum_rounding=0.0, replicas=None):
        self.streams, self.views = parts.streams, parts.views
        self.engine, self.clipping = parts.engine, parts.clipping
        self.replicas = replicas or OneDevice()
        self._model, self._plan, self._sum_rounding = model, plan, sum_rounding
        self._noised_statistics = NoisedStatistics(model, plan)
        self._loss = self._optimizer = self._physical = None

    def compile(self, optimizer, loss, judge):
        """Sets the optimizer, the loss and the hook of the verification, see `PhysicalBatches`.

        The loss is a `PerExampleLoss`, or a function (y, predictions) -> [rows]. Raises ValueError
        for an optimizer that the engine cannot work for.
        """
        self._loss, self._optimizer = loss, optimizer
        self._engine_sum()  # which may reject the optimizer
        self._physical = PhysicalBatches(judge)

    def __call__(self, lot, noise, optimizer):
        """Makes an update, and returns its `Outputs`.

        The `Lot` [K, P, ...] is announced in the ledger; the steps of the Keras optimizer are known
        to be of this run. `noise` is a `tfdpnorm.noise.gaussian.GaussianNoise`.
        """
        trained = trainable_variables(self._model)
        # Weight regularisers depend on no example: their gradient is added after the noise.
        regularization = regularization_gradients(self._model, trained)
        penalty = tf.add_n(self._model.losses) if self._model.losses else tf.constant(0.0)
        number = noise.next_number()
        clipped = self.clipped(lot)
        gradients = self.noised(clipped, noise, number)
        if regularization is not None:
            gradients = added_gradients(gradients, regularization)
        apply_gradients(optimizer, gradients, self._model.trainable_variables)
        total = clipped.total
        return Outputs(gradients, total.losses, total.predictions, total.nonfinite, penalty)

    def clipped(self, lot):
        """Returns the `ClippedBatch` of a `Lot` of [K, P, ...]. **Not private yet.**"""
        trained = trainable_variables(self._model)
        measured = [*trained, *self.streams.tap_variables()]
        clipping = self.clipping.of_variables(
            layers=layer_numbers(self._model, measured),
            weights=self.streams.clip_weights(measured),
        )
        before = operation_count()
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(trained)
            statistics = self.streams.public_pass(training=True)
        public = tensors_since(before)
        unreached = []

        def summed_by_engine():
            return self._physical_sum(lot, public, statistics, measured, clipping, unreached)

        physical_sum = self.engine.summed(summed_by_engine, lot.mask.shape[1])
        total = sum_over_batch(physical_sum, lot, self.replicas)

        def row_moments(x, y, sample_weight, mask):
            del y
            rows = self.views.as_rows(self.views(x))
            run = lambda: self.streams.forward(rows, statistics, training=True)  # noqa: E731
            return self._noised_statistics.row_moments(run, sample_weight, mask, self.views)

        if self._noised_statistics.layers:
            row_moments = self._physical.of_rows(row_moments, lot, public)
        sums, measured, weights = self._noised_statistics.joined(
            total.gradients, measured, clipping.weights, lot, row_moments, self.replicas
        )
        sensitivity = clipping.sensitivity * (1 + self._sum_rounding)
        return ClippedBatch(
            total, sums, sensitivity, measured, weights, tape, statistics, unreached
        )

    def noised(self, clipped, noise, update):
        """Returns the `private_gradients` of a `ClippedBatch`."""
        return private_gradients(
            clipped,
            trainable_variables(self._model),
            plan=self._plan,
            noise=self.replicas.workers.noise_of_chief(noise),
            update=update,
            pulls_back=self.streams.pulls_back,
            shrinks=self.streams.shrinks,
            noised_statistics=self._noised_statistics,
        )

    def _physical_sum(self, lot, public, statistics, measured, clipping, unreached):
        """The function of a physical batch that the engine in use sums by, verified."""
        unreached.clear()
        engine, clipped_sum = self.engine.now, self._engine_sum()

        def viewed(x, y, sample_weight, mask):
            del y, sample_weight, mask
            return self.views(x)

        if self.views.augmentations and not engine.one_pass:
            # They see the whole batch, whatever the engine does with the rows afterwards.
            viewed = self._physical.of_rows(viewed, lot, public)

        def physical_sum(rows, **options):
            x, y, sample_weight, mask = rows
            loss_fn = self._loss_fn(x, mask, statistics)
            rows = (viewed(*rows), y, sample_weight, mask)
            if not engine.of_tensorflow_privacy:
                options = {**options, "unreached": unreached}
            return clipped_sum(loss_fn, rows, measured, clipping, **options)

        return self._physical.clipped_sum(
            physical_sum,
            lot,
            public,
            measured,
            can_be_proved=engine.one_pass,
            reads_rows=weights_are_in_the_graph_of_layers(self._model),
        )

    def _engine_sum(self):
        rows_mix, count = self.streams.rows_mix, self.views.rows_per_example
        return self.engine.now.bind(self._model, self._optimizer, rows_mix, count)

    def _loss_fn(self, x, mask, statistics):
        """The engine's loss_fn for a physical batch."""
        # In mode "lot" the rows of each physical batch share their statistics.
        used = statistics or self.streams.lot_pass(x, mask)

        def loss_fn(x, y, sample_weight):
            predictions = self.streams.forward(
                self.views.as_rows(x), used, training=True, mask=mask
            )
            check_no_added_losses(self._model)
            weights = self.views.repeated(sample_weight)
            of_steps = weights.shape.rank > 1
            y, given = self.views.repeated(y), weights if of_steps else None
            if hasattr(self._loss, "with_outputs"):
                losses, of_outputs = self._loss.with_outputs(y, predictions, given)
            else:  # a plain function
                losses, of_outputs = self._loss(y, predictions), []

            def weighted(losses):
                return losses if of_steps else losses * tf.cast(weights, losses.dtype)

            shown = tf.nest.map_structure(self.views.shown, Shown.of(predictions, of_outputs))
            return self.views.mean(weighted(losses)), shown

        return loss_fn


def sum_over_batch(physical_sum, lot, replicas=None):
    """Adds up the clipped sums of the K physical batches of a `Lot` [K, P, ...].

    `physical_sum(x, y, sample_weight, mask)` gives the `ClippedSum` of one. They are added up on
    `replicas`, by default one device. Losses and predictions are [K * P, ...].
    """
    replicas = replicas or OneDevice()
    if replicas.count == 1 and lot.mask.shape[0] == 1:
        return physical_sum(*_physical_batch(lot, 0))
    parts = replicas.of_shares(_wide_sum, physical_sum, lot)
    *gradients, nonfinite = replicas.added([[*p.sum.gradients, p.sum.nonfinite] for p in parts])
    # In float64 until here, so that many physical batches do not round more than one.
    gradients = [tf.cast(g, dtype) for g, dtype in zip(gradients, parts[0].dtypes, strict=True)]
    losses, predictions = tf.nest.map_structure(
        lambda *shares: tf.concat(shares, axis=0) if len(shares) > 1 else shares[0],
        *((p.sum.losses, p.sum.predictions) for p in parts),
    )
    return ClippedSum(gradients, losses, predictions, nonfinite)


class _WideSum(NamedTuple):
    """The `ClippedSum` of physical batches, its gradients in float64, and their own dtypes."""

    sum: ClippedSum
    dtypes: list


def _wide_sum(physical_sum, lot):
    """Returns the `_WideSum` of a share of a batch."""
    count = tf.shape(lot.mask)[0]

    def part_of(k):
        return physical_sum(*_physical_batch(lot, k))

    def wide(gradients):
        return [tf.cast(g, tf.float64) for g in gradients]

    def written(arrays, k, part):
        return tf.nest.map_structure(
            lambda array, t: array.write(k, t), arrays, (part.losses, part.predictions)
        )

    like = getattr(physical_sum, "structured_outputs", None)
    if like is not None and all(g.shape.is_fully_defined() for g in like.gradients):
        # A traced function has known outputs: one call of it makes a smaller graph.
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
    losses, predictions = tf.nest.map_structure(lambda array: array.concat(), arrays)
    dtypes = [g.dtype for g in like.gradients]
    return _WideSum(ClippedSum(gradients, losses, predictions, nonfinite), dtypes)


def _physical_batch(lot, k):
    return tf.nest.map_structure(lambda t: t[k], tuple(lot))


def private_gradients(
    clipped, trained, *, plan, noise, update, pulls_back, noised_statistics, shrinks=False
):
    """Noises a `ClippedBatch` and turns it into the gradients of `trained` for the optimizer.

    (sum + N(0, (z S)^2)) / expected_batch_size, where the sum is over all measured variables taken
    as one vector and S is its sensitivity: C, and what rounding adds. By default the numerator is
    rounded to a grid (`tfdpnorm.noise.grid`). What the sums were multiplied by for
    the clip is undone after the noise.

    The gradient is None for a variable that the loss does not depend on: its sum is zero for any
    batch, so that there is nothing to hide, and noise would only spoil weights that are used
    elsewhere. Keras leaves them as they are, too.

    Args:
        trained: The variables that the optimizer updates, the first of those that are measured.
        update: The number of this update's noise, of `GaussianNoise.next_number`.
        pulls_back: Whether the part of the gradient that comes through the public statistics is
            added, from the noisy numbers (`tfdpnorm.layers.pull_back`).
        noised_statistics: `NoisedStatistics`, whose running averages are moved by what is released
            for them.
        shrinks: Whether the noisy numbers are shrunk before they are pulled back.
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
