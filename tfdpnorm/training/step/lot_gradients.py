"""From a lot to the gradients of a model: forward passes, clipped sum and noise."""

from typing import NamedTuple

import tensorflow as tf

from tfdpnorm.audit import check_no_added_losses
from tfdpnorm.gradients import ClippedSum
from tfdpnorm.keras_compat.graphs import operation_count, tensors_since
from tfdpnorm.keras_compat.models import layer_numbers, weights_are_in_the_graph_of_layers
from tfdpnorm.layers import PublicStatistics
from tfdpnorm.training.step.lot_sum import sum_over_lot
from tfdpnorm.training.step.noised_statistics import NoisedStatistics
from tfdpnorm.training.step.physical import PhysicalBatches
from tfdpnorm.training.step.release import private_gradients
from tfdpnorm.training.step.shown import Shown


class ClippedLot(NamedTuple):
    """What an update is about to release of a lot. **Not private yet.**

    Attributes:
        total: `ClippedSum` by the measured variables, with losses and predictions.
        sums: List of tensors that are noised together.
        sensitivity: How far adding or removing one example can move `sums`, taken as one vector,
            in the L2 norm, unless the guarantee is void: C, and what rounding adds.
        measured: What they are by: the trained variables, those that only the pull-back reads, and
            running averages.
        weights: What each sum was multiplied by for the clip, or None.
        tape: Tape of the public pass.
        statistics: `PublicStatistics` of the public pass, or None.
        unreached: List of the measured variables that the loss does not depend on: their sums are
            zero for any lot.
    """

    total: ClippedSum
    sums: list
    sensitivity: float
    measured: list
    weights: list | None
    tape: tf.GradientTape
    statistics: PublicStatistics | None
    unreached: list = ()


class LotGradients:
    """Computes a model's private gradients of a lot.

    Args:
        model: The Keras model that is trained.
        streams: `tfdpnorm.training.step.streams.Streams` of the model.
        views: `tfdpnorm.training.step.views.Views`.
        plan: `tfdpnorm.privacy.PrivacyPlan`.
        engine: `tfdpnorm.training.step.engine_in_use.EngineInUse`.
        clipping: `tfdpnorm.gradients.Clipping`, of no variables yet.
        sum_rounding: What rounding can add to the sensitivity, relative to it (see
            `tfdpnorm.gradients.rounded_sums`).

    Attributes:
        engine: As given.
        clipping: As given.
        views: As given.
    """

    def __init__(self, model, streams, views, plan, *, engine, clipping, sum_rounding):
        self.engine = engine
        self.clipping = clipping
        self._sum_rounding = sum_rounding
        self._model = model
        self._streams = streams
        self.views = views
        self._plan = plan
        self._noised_statistics = NoisedStatistics(model, plan)
        self._loss = None
        self._optimizer = None
        self._physical = None

    def compile(self, optimizer, loss, conclude):
        """Sets what the gradients are for.

        Args:
            optimizer: The optimizer.
            loss: `PerExampleLoss`, or a function (y, predictions) -> [rows].
            conclude: See `PhysicalBatches`.

        Raises:
            ValueError: for an optimizer that the engine cannot work for.
        """
        self._loss, self._optimizer = loss, optimizer
        self._engine_sum()  # which may refuse the optimizer
        self._physical = PhysicalBatches(conclude)

    def clipped(self, lot):
        """Returns the `ClippedLot` of a lot. **Not private yet.**

        Args:
            lot: `tfdpnorm.data.Lot` of [K, P, ...].
        """
        trained = self._model.trainable_variables
        measured = [*trained, *self._streams.tap_variables()]
        clipping = self.clipping.of_variables(
            layers=layer_numbers(self._model, measured),
            weights=self._streams.clip_weights(measured),
        )
        unreached = []
        before = operation_count()
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(trained)
            statistics = self._streams.public_pass(training=True)
        public = tensors_since(before)

        def views_of(x, y, sample_weight, mask):
            del y, sample_weight, mask
            return self.views(x)

        def summed_by_engine():
            unreached.clear()
            engine, clipped_sum = self.engine.now, self._engine_sum()
            viewed = views_of
            if self.views.augmentations and not engine.can_be_proved:
                # They see the whole batch, whatever the engine does with the rows afterwards.
                viewed = self._physical.of_rows(views_of, lot, public)

            def physical_sum(rows, **options):
                x, y, sample_weight, mask = rows
                loss_fn = self._loss_fn(x, mask, statistics)
                rows = (viewed(*rows), y, sample_weight, mask)
                if engine.takes_unreached:
                    options = {**options, "unreached": unreached}
                return clipped_sum(loss_fn, rows, measured, clipping, **options)

            return self._physical.clipped_sum(
                physical_sum,
                lot,
                public,
                measured,
                can_be_proved=engine.can_be_proved,
                reads_rows=weights_are_in_the_graph_of_layers(self._model),
            )

        physical_sum = self.engine.summed(summed_by_engine, lot.mask.shape[1])
        total = sum_over_lot(physical_sum, lot)

        def row_moments(x, y, sample_weight, mask):
            del y, sample_weight
            rows = self.views.as_rows(self.views(x))
            run = lambda: self._streams.forward(rows, statistics, training=True)  # noqa: E731
            return self._noised_statistics.row_moments(run, mask, self.views)

        if self._noised_statistics.layers:
            row_moments = self._physical.of_rows(row_moments, lot, public)
        sums, measured, weights = self._noised_statistics.joined(
            total.gradients, measured, clipping.weights, lot, row_moments
        )
        sensitivity = clipping.sensitivity * (1 + self._sum_rounding)
        return ClippedLot(total, sums, sensitivity, measured, weights, tape, statistics, unreached)

    def private(self, clipped, noise, update):
        """Returns the gradients for the optimizer: list of tensors like the trained variables.

        None stands for the gradient of a variable that the loss does not depend on.

        Moves the running averages of noised statistics, if the model has any.

        Args:
            clipped: `ClippedLot`.
            noise: `tfdpnorm.training.step.noise.GaussianNoise`.
            update: The number of this update.
        """
        return private_gradients(
            clipped,
            self._model.trainable_variables,
            plan=self._plan,
            noise=noise,
            update=update,
            pulls_back=self._streams.pulls_back,
            shrinks=self._streams.shrinks,
            noised_statistics=self._noised_statistics,
        )

    def _engine_sum(self):
        rows_mix, count = self._streams.rows_mix, self.views.count
        return self.engine.now.bind(self._model, self._optimizer, rows_mix, count)

    def _loss_parts(self, y, predictions, weights):
        """The loss of each row, and a list of it by outputs: none for a plain function."""
        if hasattr(self._loss, "with_outputs"):
            return self._loss.with_outputs(y, predictions, weights)
        return self._loss(y, predictions), []

    def _loss_fn(self, x, mask, statistics):
        """The engine's loss_fn for a physical batch."""
        # In mode "lot" the rows of each physical batch share their statistics.
        used = statistics or self._streams.lot_pass(x, mask)

        def loss_fn(x, y, sample_weight):
            predictions = self._streams.forward(
                self.views.as_rows(x), used, training=True, mask=mask
            )
            check_no_added_losses(self._model)
            of_steps = sample_weight.shape.rank > 1
            losses, of_outputs = self._loss_parts(
                self.views.repeated(y),
                predictions,
                self.views.repeated(sample_weight) if of_steps else None,
            )
            losses = self.views.mean(losses)
            if not of_steps:
                losses *= tf.cast(sample_weight, losses.dtype)
            shown = Shown.of(predictions, of_outputs)
            return losses, tf.nest.map_structure(self.views.mean, shown)

        return loss_fn
