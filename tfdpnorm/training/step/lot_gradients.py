"""From a lot to the gradients of a model: forward passes, the clipped sum, and its noise."""

from typing import NamedTuple

import tensorflow as tf

from tfdpnorm.audit import check_no_added_losses
from tfdpnorm.gradients import ClippedSum
from tfdpnorm.gradients.engines.registry import get_engine
from tfdpnorm.keras_compat.walk import layer_numbers
from tfdpnorm.layers import PublicStatistics
from tfdpnorm.training.step.noised_statistics import NoisedStatistics
from tfdpnorm.training.step.private_step import clipped_lot_sum, private_gradients


class ClippedLot(NamedTuple):
    """What came of a lot.

    Attributes:
        total: `ClippedSum`: losses, predictions and the sum by the measured variables.
        released: List of tensors that are noised together: one example moves their joint norm by
            at most C, unless the guarantee is void.
        measured: What they are by: the trained variables, those that only a pull-back needs, and
            running averages.
        clip_weights: What the gradients by each of these were multiplied by for the clip, or None.
        tape: Tape of the public pass.
        statistics: `PublicStatistics` of the public pass, or None.
    """

    total: ClippedSum
    released: list
    measured: list
    clip_weights: list | None
    tape: tf.GradientTape
    statistics: PublicStatistics | None


class LotGradients:
    """Computes a model's private gradients of a lot.

    Args:
        model: The Keras model that is trained.
        streams: `tfdpnorm.training.step.streams.Streams` of the model.
        views: `tfdpnorm.training.step.views.Views`.
        plan: `tfdpnorm.privacy.PrivacyPlan`.
        engine: Name of an engine (see `tfdpnorm.gradients.engines.registry`).
        loss_scale: See `make_private`.
        pull_back_weight: Likewise.
        clipping: Likewise.
        clip_function: Likewise.
    """

    def __init__(
        self,
        model,
        streams,
        views,
        plan,
        *,
        engine,
        loss_scale,
        pull_back_weight,
        clipping="flat",
        clip_function="abadi",
    ):
        self.engine = engine
        self.loss_scale = float(loss_scale)
        self._pull_back_weight = float(pull_back_weight)
        self._clipping = clipping
        self._clip_function = clip_function
        self._model = model
        self._streams = streams
        self._views = views
        self._plan = plan
        self._noised_statistics = NoisedStatistics(model, plan)
        self._loss = None
        self._clipped_sum = None

    @property
    def augmentations(self):
        """Tuple of what makes views of an example."""
        return self._views.augmentations

    def compile(self, optimizer, loss):
        """Has the gradients be those of a `PerExampleLoss`, for an optimizer."""
        self._loss = loss
        self._clipped_sum = get_engine(self.engine, self._model, optimizer)

    def clipped(self, lot):
        """Returns the `ClippedLot` of a `tfdpnorm.data.Lot` of [K, P, ...]. Not private yet."""
        trained = self._model.trainable_variables
        measured = [*trained, *self._streams.tap_variables()]
        clip_weights = self._streams.clip_weights(measured, self._pull_back_weight)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(trained)
            statistics = self._streams.public_pass(training=True)
        total = clipped_lot_sum(
            self._clipped_sum,
            lambda x, mask: self._loss_fn(x, mask, statistics),
            lot,
            measured,
            l2_norm_clip=self._plan.l2_norm_clip,
            rows_mix=self._streams.rows_mix,
            loss_scale=self.loss_scale,
            clip_weights=clip_weights,
            prepare=self._views,
            **self._engine_options(measured),
        )

        def run(x):
            rows = self._views.as_rows(self._views(x))
            return self._streams.forward(rows, statistics, training=True)

        joined = self._noised_statistics.joined(
            total.gradients, measured, clip_weights, lot, run, self._views
        )
        return ClippedLot(total, *joined, tape, statistics)

    def private(self, clipped, noise, update):
        """Returns the gradients for the optimizer: list of tensors like the trained variables.

        Moves the running averages of noised statistics, if the model has any.

        Args:
            clipped: `ClippedLot`.
            noise: `tfdpnorm.training.step.noise.GaussianNoise`.
            update: The number of this update.
        """
        return private_gradients(
            clipped.released,
            clipped.measured,
            self._model.trainable_variables,
            plan=self._plan,
            noise=noise,
            update=update,
            clip_weights=clipped.clip_weights,
            tape=clipped.tape,
            statistics=clipped.statistics if self._streams.pulls_back else None,
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

    def _engine_options(self, measured):
        """What the engine is told beside what all engines take."""
        options = {}
        if self._clipping == "per_layer":
            options["clip_groups"] = layer_numbers(self._model, measured)
        if self._clip_function != "abadi":
            options["clip_function"] = self._clip_function
        if self.engine == "book_keeping":
            options["rows_per_example"] = self._views.count
        return options
