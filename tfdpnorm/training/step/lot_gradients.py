"""From a lot to the gradients of a model: forward passes, clipped sum and noise."""

from typing import NamedTuple

import tensorflow as tf

from tfdpnorm.audit import check_no_added_losses
from tfdpnorm.gradients import ClippedSum
from tfdpnorm.keras_compat.walk import layer_numbers
from tfdpnorm.layers import PublicStatistics
from tfdpnorm.training.step.lot_sum import sum_over_lot
from tfdpnorm.training.step.noised_statistics import NoisedStatistics
from tfdpnorm.training.step.release import private_gradients


class ClippedLot(NamedTuple):
    """What an update is about to release of a lot. **Not private yet.**

    Attributes:
        total: `ClippedSum` by the measured variables, with losses and predictions.
        sums: List of tensors that are noised together.
        sensitivity: How far adding or removing one example can move `sums`, taken as one vector,
            in the L2 norm, unless the guarantee is void.
        measured: What they are by: the trained variables, those that only the pull-back reads, and
            running averages.
        weights: What each sum was multiplied by for the clip, or None.
        tape: Tape of the public pass.
        statistics: `PublicStatistics` of the public pass, or None.
    """

    total: ClippedSum
    sums: list
    sensitivity: float
    measured: list
    weights: list | None
    tape: tf.GradientTape
    statistics: PublicStatistics | None


class LotGradients:
    """Computes a model's private gradients of a lot.

    Args:
        model: The Keras model that is trained.
        streams: `tfdpnorm.training.step.streams.Streams` of the model.
        views: `tfdpnorm.training.step.views.Views`.
        plan: `tfdpnorm.privacy.PrivacyPlan`.
        engine: `tfdpnorm.gradients.engines.registry.Engine`.
        clipping: `tfdpnorm.gradients.Clipping`, of no variables yet.

    Attributes:
        engine: As given.
        clipping: As given.
    """

    def __init__(self, model, streams, views, plan, *, engine, clipping):
        self.engine = engine
        self.clipping = clipping
        self._model = model
        self._streams = streams
        self._views = views
        self._plan = plan
        self._noised_statistics = NoisedStatistics(model, plan)
        self._loss = None
        self._clipped_sum = None

    @property
    def augmentations(self):
        """Tuple of what makes the views of an example."""
        return self._views.augmentations

    def compile(self, optimizer, loss):
        """Sets the loss, a `PerExampleLoss`, and the optimizer that the gradients are for.

        Raises:
            ValueError: for an optimizer that the engine cannot work for.
        """
        self._loss = loss
        self._clipped_sum = self.engine.bind(
            self._model, optimizer, self._streams.rows_mix, self._views.count
        )

    def clipped(self, lot):
        """Returns the `ClippedLot` of a `tfdpnorm.data.Lot` of [K, P, ...]. **Not private yet.**"""
        trained = self._model.trainable_variables
        measured = [*trained, *self._streams.tap_variables()]
        clipping = self.clipping.of_variables(
            layers=layer_numbers(self._model, measured),
            weights=self._streams.clip_weights(measured),
        )
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(trained)
            statistics = self._streams.public_pass(training=True)
        total = sum_over_lot(
            self._clipped_sum,
            lambda x, mask: self._loss_fn(x, mask, statistics),
            lot,
            measured,
            clipping,
            prepare=self._views,
        )

        def run(x):
            rows = self._views.as_rows(self._views(x))
            return self._streams.forward(rows, statistics, training=True)

        sums, measured, weights = self._noised_statistics.joined(
            total.gradients, measured, clipping.weights, lot, run, self._views
        )
        return ClippedLot(total, sums, clipping.sensitivity, measured, weights, tape, statistics)

    def private(self, clipped, noise, update):
        """Returns the gradients for the optimizer: list of tensors like the trained variables.

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
            noised_statistics=self._noised_statistics,
        )

    def _loss_fn(self, x, mask, statistics):
        """The engine's loss_fn for a physical batch."""
        # In mode "lot" the rows of each physical batch share their statistics.
        used = statistics or self._streams.lot_pass(x, mask)

        def loss_fn(x, y, sample_weight):
            predictions = self._streams.forward(
                self._views.as_rows(x), used, training=True, mask=mask
            )
            check_no_added_losses(self._model)
            losses = self._loss(self._views.repeated(y), predictions)
            losses = self._views.mean(losses)
            losses *= tf.cast(sample_weight, losses.dtype)
            return losses, tf.nest.map_structure(self._views.mean, predictions)

        return loss_fn
