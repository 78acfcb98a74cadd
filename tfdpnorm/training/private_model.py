"""A Keras model that trains another one under differential privacy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.data import Lot
from tfdpnorm.independence import rows_apart
from tfdpnorm.keras_compat.saving import (
    UnsavedModel,
    compiled_state_at_zero,
    has_deferred_weights,
    warn_unless_made_again,
)
from tfdpnorm.keras_compat.training import (
    BeginsWithinEpoch,
    is_validation_of_fit,
    shown_loss,
)
from tfdpnorm.privacy import privacy_statement, privacy_summary, statement_json
from tfdpnorm.privacy.metadata import write_metadata
from tfdpnorm.privacy.slots import slots_of_plan
from tfdpnorm.training.announced_updates import BatchesInUse, announced_in_ledger
from tfdpnorm.training.callbacks.own_callbacks import OwnCallbacks
from tfdpnorm.training.callbacks.private_validation import PrivateValidation
from tfdpnorm.training.callbacks.progress import SaysTime
from tfdpnorm.training.checks.advice import warn_of_ineffective
from tfdpnorm.training.checks.callbacks import (
    check_callbacks,
    check_rate_is_settable,
    named_by_evaluations,
    validations_first,
)
from tfdpnorm.training.checks.data import NO_TARGETS, one_physical_batch
from tfdpnorm.training.checks.independence import IndependenceChecks
from tfdpnorm.training.checks.metrics import (
    MetricsApart,
    changes_no_variable,
    check_metrics_are_outside,
    checked_names,
)
from tfdpnorm.training.checks.settings import (
    check_no_auto_clustering,
    check_no_strategy,
    check_optimizer,
    check_replicas,
)
from tfdpnorm.training.errors import without_private_values
from tfdpnorm.training.fit_data import (
    checked_batches,
    epochs_to_train,
    is_sampled_by_this_library,
    prepared_lots,
)
from tfdpnorm.training.losses import PerExampleLoss
from tfdpnorm.training.metrics import UpdateMetrics, WarnsOfNonfinite, show_update
from tfdpnorm.training.public_rows_model import PublicRowsModel
from tfdpnorm.training.resume.resumption import optimizer_settings
from tfdpnorm.training.session import Session
from tfdpnorm.training.suggested_rate import OPTIMIZERS
from tfdpnorm.training.tasks import preprocessed, preprocessed_for_fit
from tfdpnorm.training.wrapped_attributes import WrappedAttributes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import numpy as np
    from numpy.typing import ArrayLike

    from tfdpnorm.noise.gaussian import GaussianNoise
    from tfdpnorm.privacy.ledger import PrivacyLedger
    from tfdpnorm.training.resume.resumption import Resumption, WithoutRunFolder
    from tfdpnorm.training.update import Update


class PrivateModel(WrappedAttributes, BeginsWithinEpoch, UnsavedModel):
    """Trains a Keras model by DP-SGD; made by `tfdpnorm.make_private`.

    One training step is one update: a Poisson-sampled batch, per-example gradients clipped to
    `l2_norm_clip`. Noise is added once to their sum, and the optimizer gets the noisy sum divided
    by the *expected* batch size (Abadi et al. 2016, Algorithm 1). `compile` takes any Keras
    optimizer, `fit` any callback; `evaluate`, `predict` and `save` are those of the wrapped model.

    Privacy:
        The weights after `fit`, and everything computed from them, are (epsilon, delta)-DP as
        `privacy_statement()` says. The statement also names what is not covered: the loss and the
        metrics that `fit` prints on the training data have no noise.

    Attributes:
        model: The wrapped Keras model; trained in place.
        plan: The `tfdpnorm.privacy.PrivacyPlan`.
        ledger: The `tfdpnorm.privacy.PrivacyLedger`: the budget spent.
        session: The `Session`: the provenance of weights, optimizer and data.
        streams: `tfdpnorm.training.public_rows.Streams` of the model.
        replicas: `tfdpnorm.training.replicas.Replicas`: the devices that train it.
        task: The KerasHub task whose graph `model` is, or None.
        conversion: `tfdpnorm.convert.ConversionReport`, with `make_private(..., convert=...)`.
        suggestion: `tfdpnorm.training.Suggestion`, of a `make_private` without a plan, or None.

    Example::

        private = tfdpnorm.make_private(model, plan, public_batch=public_rows)
        private.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        history = private.fit(x, y, verbose=0)
        print(history.history["epsilon"], private.privacy_statement())
        private.save("model.keras")
    """

    how_to_save = (
        "The private model itself cannot be saved or cloned: the copy would hold metrics of "
        "private examples, without noise. Call private.save(path), or use private.model."
    )

    def __init__(  # noqa: DOC101, DOC103
        self,
        model: keras.Model,
        *,
        ledger: PrivacyLedger,
        update: Update,
        noise: GaussianNoise,
        physical_batch_size: int | None,
        validate: bool,
        resumption: Resumption | WithoutRunFolder,
        task: keras.Model | None = None,
    ) -> None:
        # float32 for the wrapper itself: under mixed_float16 Keras would otherwise wrap the
        # optimizer in dynamic loss scaling, which one overflowing example changes without noise.
        super().__init__(name=f"private_{model.name}", dtype="float32")
        self.model = model
        self.task = task
        self.ledger = ledger
        self.plan = ledger.plan
        self.streams, self.replicas = update.streams, update.replicas
        self.slots = slots_of_plan(self.plan, physical_batch_size, self.replicas.count)
        # What audits run at: the size that trains, which may be a little smaller.
        self.physical_batch_size = None if physical_batch_size is None else self.slots.rows
        self.independence_checks = IndependenceChecks(self, update.engine, validate)
        self._update, self._noise, self._resumption = update, noise, resumption
        # Names that dicts of losses, metrics and targets go by.
        self.output_names = getattr(model, "output_names", None)
        self._update_metrics = UpdateMetrics()
        self._per_example_loss = None
        self.optimizer_settings = None
        self._names_of_metrics = ()
        public_rows = None if self.streams.rows_are_generated else self.streams.public_batch
        self.session = Session(model, ledger, public_rows)
        self.conversion = self.suggestion = None
        if not resumption.restores:
            self.session.provenance.begin()
        resumption.restore_weights(model)
        self.session.provenance.note()

    # What Keras asks of a model

    def compile(
        self,
        optimizer: str | keras.optimizers.Optimizer = "rmsprop",
        loss: Any = None,
        metrics: Any = None,
        loss_weights: Any = None,
        **kwargs: Any,
    ) -> None:
        """Configures training; as `keras.Model.compile`.

        Args:
            optimizer: Any Keras optimizer, by name or object, except one that clips and adds noise
                itself. If `make_private` had no plan, the names "sgd", "adam", "adamw" and
                "rmsprop" stand for optimizers with the suggested learning rate; an object keeps
                its own.
            loss: Keras loss that gives one value per example; any reduction it has is ignored in
                training. With masks and `ignore_class`, see `PerExampleLoss`.
            metrics: As in Keras; padding rows are left out of them.
            loss_weights: As in Keras; in a dict, outputs without one have 1.
            **kwargs: As in Keras.

        Raises:
            ValueError: for an optimizer that scales losses or adds noise, a missing loss, metrics
                that are part of the model or have a name that callbacks may monitor, an optimizer
                that was used before, steps_per_execution="auto", TF_XLA_FLAGS with
                auto-clustering, inside of a `tf.distribute.Strategy`, and for jit_compile or
                run_eagerly on several devices.
        """
        check_no_strategy(self.model)
        check_no_auto_clustering()
        if kwargs.get("steps_per_execution") == "auto":
            raise ValueError(
                'Expected a fixed steps_per_execution, got "auto": Keras may change it between the '
                "entry in the ledger and the updates. Pass a number."
            )
        check_replicas(
            self.replicas,
            jit_compile=kwargs.get("jit_compile") is True,
            run_eagerly=kwargs.get("run_eagerly"),
        )
        if kwargs.get("jit_compile") is True and self._noise.generator == "openssl":
            raise ValueError(
                'Expected jit_compile=False with noise_generator="openssl", which runs on the '
                'host, got True. Leave it out; or pass noise_generator="philox" to make_private, '
                "which is not cryptographic, as the statement then says."
            )
        if loss is None and self.task is not None:
            loss = getattr(self.task, "loss", None)  # tasks are compiled as they are made
        if self.suggestion is not None and optimizer in OPTIMIZERS:
            optimizer = self.suggestion.optimizer(optimizer)
        optimizer = keras.optimizers.get(optimizer)
        check_optimizer(optimizer)
        all_metrics = [metrics, kwargs.get("weighted_metrics")]
        check_metrics_are_outside(all_metrics, self.model)
        names_of_metrics = checked_names(all_metrics, self.output_names)
        self.session.provenance.check_optimizer(optimizer)
        if isinstance(loss, dict) and isinstance(loss_weights, dict):
            loss_weights = {**dict.fromkeys(loss, 1.0), **loss_weights}  # Keras 3 wants them all.
        self._per_example_loss = PerExampleLoss(loss, loss_weights, self.output_names)
        warn_of_ineffective(self.model, self.plan, optimizer, loss, stacklevel=2)
        self.optimizer_settings = optimizer_settings(optimizer)
        self._names_of_metrics = names_of_metrics
        self.session.compiled()
        self._update.compile(optimizer, self._per_example_loss, self.independence_checks.judge)
        super().compile(
            optimizer=optimizer, loss=loss, loss_weights=loss_weights, metrics=metrics, **kwargs
        )

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        with changes_no_variable(self.model):
            statistics = self.streams.public_pass(training=training)
            return self.streams.forward(inputs, statistics, training=bool(training))

    def train_step(self, data: Any) -> dict:
        self.session.batches.check_step()
        lot = data if isinstance(data, Lot) else one_physical_batch(data, self.plan)
        if lot.y is None:
            raise ValueError(NO_TARGETS)
        outputs = self._update(lot, self._noise, self.optimizer)
        apart = MetricsApart()
        self._update_metrics.nonfinite.update_state(tf.cast(outputs.nonfinite, tf.float32))
        show_update(self, lot, outputs)
        apart.check(self.metrics)
        return self.get_metrics_result()

    def clipped_sum(self, lot: Lot) -> list[tf.Tensor]:
        """The sum of clipped gradients over a batch, before any noise.

        **Not private**: for audits, which ask how far one example can move it. Updates nothing.

        Args:
            lot: `tfdpnorm.data.Lot` of [K, P, ...].

        Returns:
            List of tensors, for the trained variables and those that only a pull-back needs, times
            their weights in the clip, and all other values that get noise with them (see
            `NoisedStatistics`): adding or removing one example moves their joint norm by at most
            `plan.l2_norm_clip`, unless no guarantee holds.
        """
        return self._update.clipped(lot).sums

    def test_step(self, data: Any) -> dict:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        predictions = self(x, training=False)
        with changes_no_variable(self.model, lambda: self.metrics):
            shown_loss(self, y, predictions, sample_weight)
            logs = self.compute_metrics(x, y, predictions, sample_weight)
        training_only = {metric.name for metric in self._update_metrics.all}
        return {name: value for name, value in logs.items() if name not in training_only}

    def make_train_function(self, force: bool = False) -> Callable:
        """As in Keras; every update goes through the ledger before its noise is drawn."""
        train_function = super().make_train_function(force)
        if getattr(train_function, "announces_updates", False):
            return train_function  # Keras keeps the one that it was given.
        self.train_function = announced_in_ledger(
            train_function, self, self._update_metrics.epsilon
        )
        return self.train_function

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int | None = None,
        verbose: int | str = "auto",
        callbacks: Sequence[keras.callbacks.Callback] | None = None,
        *,
        steps_per_epoch: int | None = None,
        validation_is_public: bool = False,
        person: ArrayLike | None = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains until `epochs` or the planned updates have passed, whichever is first.

        Args:
            x: `tfdpnorm.data.PoissonBatches`, or what `tfdpnorm.data.poisson_batches` takes, which
                is Poisson-sampled here: arrays [N, ...], in memory or in files, or a source of
                examples. Several inputs go in a tuple, a list or a dict. The rows of a
                `keras.utils.Sequence` that gives the same items again are read into memory and
                sampled, too. Any other data that Keras can iterate over trains as well, but
                without a guarantee: its sampling is unknown.
            y: Targets [N, ...] for arrays.
            batch_size: None, or the expected batch size of the plan.
            epochs: Number of epochs; by default, enough for all planned updates.
            verbose: As in Keras.
            callbacks: As in Keras. Those that act on a private quantity are rejected, or named in
                the statement (see `check_callbacks`); `PrivateValidation` is what they can monitor.
            steps_per_epoch: Updates per epoch; by default N / expected_batch_size, rounded.
            validation_is_public: Whether `validation_data` is public, so that callbacks
                may act on it.
            person: For a plan of persons: the person of each row, a vector of integers
                or texts.
            **kwargs: As in Keras. `validation_data` must hold no training row of any `fit`, and are
                compared with them. `sample_weight` is [N], or [N, ...] for each step of the loss.
                `class_weight` must not be computed from the private labels; the statement says so.

        Returns:
            The Keras `History`; its `epsilon` is the epsilon spent after each epoch.

        Raises:
            BudgetExhaustedError: if the planned updates are used up.
            ValueError: if the data's N or expected batch size are not the plan's, the public batch
                does not fit the data or is part of it, or an argument has no meaning for
                Poisson-sampled batches, or for a callback that acts on private numbers.
        """
        # 1. The model may train, and 2. so may the data, with these callbacks. 3. The weights are
        # those of the run. 4. All processes begin alike. 5. Batches and 6. epochs are laid out.
        # 7. Keras trains, and what it leaves is of the run.
        was_built = self.model.built
        loaded_early = not was_built and has_deferred_weights(self.model)
        kwargs |= {"batch_size": batch_size, "person": person}
        x, y, batches, callbacks, kwargs = self._checked(
            x, y, callbacks, validation_is_public, kwargs
        )
        if batches is None or not is_sampled_by_this_library(batches):
            self.session.void(BatchesInUse.UNKNOWN)
        if not self.restore_run(callbacks):
            if not was_built:
                self.session.provenance.begin(loaded_early=loaded_early)
                self.session.provenance.note()
            self.session.provenance.check()
        self.replicas.workers.begin(self, batches, self._resumption)
        saving = self._resumption.callbacks(self, callbacks)
        if batches is not None:
            kwargs["shuffle"] = False  # They are sampled; Keras 3 warns that it does not shuffle.
            x, y = prepared_lots(self, batches, self._noise, self._per_example_loss), None
        elif isinstance(x, tf.data.Dataset):
            kwargs.setdefault("shuffle", False)  # or Keras 3 warns that it ignores its own default
        first_step, kwargs = epochs_to_train(
            self.ledger,
            self._resumption.start_within_epoch,
            {**kwargs, "epochs": epochs, "steps_per_epoch": steps_per_epoch},
            sampled_here=batches is not None,
        )
        self.begin_within_epoch(first_step)
        stop = keras.callbacks.LambdaCallback(on_train_batch_end=self._stop_when_spent)
        own = OwnCallbacks(self, callbacks)
        try:
            with self.replicas.workers.awaited(), self.session.training(self._resumption.path):
                told = SaysTime.beside(callbacks, verbose)
                callbacks = [stop, WarnsOfNonfinite(self), *told, *own.watched, *saving]
                history = super().fit(x, y, verbose=verbose, callbacks=callbacks, **kwargs)
            own.check()
        finally:
            self.session.leave(self.optimizer)
            self.refresh_public_statistics()
        self._resumption.trained(self)
        return history

    def check_fit(
        self, x: Any = None, y: Any = None, *, callbacks: Any = None, **kwargs: Any
    ) -> None:
        """Raises what `fit` would raise before its first update, and trains nothing.

        Args:
            x: As in `fit`.
            y: As in `fit`.
            callbacks: As in `fit`.
            **kwargs: As in `fit`.
        """
        is_public = kwargs.pop("validation_is_public", False)
        _, _, batches, _, _ = self._checked(x, y, callbacks, is_public, kwargs)
        if batches is not None:
            prepared_lots(self, batches, self._noise, self._per_example_loss)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As in Keras. While `fit` runs, training rows are rejected, as in `validation_data`."""
        if not is_validation_of_fit(kwargs):
            x, y, weight = preprocessed(self.task, x, y, kwargs.get("sample_weight"))
            kwargs |= {} if weight is None else {"sample_weight": weight}
            if self.session.batches.is_training:
                self.session.rows.check_evaluated(x, kwargs.get("steps"))
        found = super().evaluate(x, y, *args, **kwargs)
        return tf.nest.map_structure(_as_number, found)  # Keras 3.6 to 3.12 leave tensors

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """As in Keras; rows are preprocessed where the model is a task."""
        return super().predict(preprocessed(self.task, x)[0], *args, **kwargs)

    def train_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        """As in Keras: one update on given rows, which invalidates the guarantee: no sampling."""
        self._check_ready_for_training()
        self.replicas.workers.check_fit(None, ())
        self.check_weights()
        before = int(self.update_count)
        try:
            with self.session.batches.given():
                return super().train_on_batch(*args, **kwargs)
        finally:
            if int(self.update_count) != before:
                self.session.leave(self.optimizer)

    def save(self, filepath: str | os.PathLike, overwrite: bool = True, **kwargs: Any) -> None:
        """Saves the trained Keras model, and of the private training only the budget spent.

        Further training of the file says so: see `tfdpnorm.privacy.metadata`.

        `keras.models.load_model(filepath)` loads it, after `import tfdpnorm` if it holds layers of
        this library, and in a process that has no private rows. It comes back uncompiled: the
        metrics, and their state in a compiled model, come from private examples. To evaluate
        it, call `compile(loss=..., metrics=...)`.

        Args:
            filepath: A `.keras` or HDF5 file, or a folder of a SavedModel, as in Keras.
            overwrite: Whether an existing file is replaced without a question.
            **kwargs: As in `keras.Model.save`.

        Warns:
            UserWarning: if Keras cannot make the model again from its configuration.
        """
        self.check_weights()  # Also where no metadata are written.
        served = self.servable()
        warn_unless_made_again(served)
        with compiled_state_at_zero(self.model):
            served.save(filepath, overwrite=overwrite, **kwargs)
        if isinstance(filepath, (str, os.PathLike)):
            write_metadata(filepath, self.privacy_metadata())

    def export(self, filepath: str | os.PathLike, *args: Any, **kwargs: Any) -> None:
        """Exports the trained model as a SavedModel for inference; as in Keras.

        It holds the present public moments instead of the public rows. Only in the statistics
        modes "example" and "lot" it holds the rows, which inference needs: see `servable`.
        """
        self.check_weights()
        self.servable().export(filepath, *args, **kwargs)
        write_metadata(filepath, self.privacy_metadata())

    def save_weights(
        self, filepath: str | os.PathLike, overwrite: bool = True, **kwargs: Any
    ) -> None:
        """Saves the trained model's weights, and nothing that `model.compile` made."""
        self.check_weights()
        self.refresh_public_statistics()
        with compiled_state_at_zero(self.model):
            self.model.save_weights(filepath, overwrite=overwrite, **kwargs)

    def load_weights(self, filepath: str | os.PathLike, **kwargs: Any) -> Any:
        """Loads weights that `save_weights` wrote.

        If they are not known to be of this run, the statement says that they are of unknown
        provenance.
        """
        status = self.model.load_weights(filepath, **kwargs)
        self.session.provenance.check(replaced=True)
        return status

    def get_weights(self) -> list[np.ndarray]:
        """Returns the weights of the wrapped model, a list of arrays."""
        self.check_weights()
        return self.model.get_weights()

    def set_weights(self, weights: Sequence[np.ndarray]) -> None:
        """Sets the weights of the wrapped model; as `load_weights`."""
        self.model.set_weights(weights)
        self.session.provenance.check(replaced=True)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The compiled metrics, then those of the training itself: a list."""
        return [*super().metrics, *self._update_metrics.all]

    def __reduce__(self):
        raise TypeError(
            "The private model itself cannot be copied or pickled: the copy would draw the same "
            "noise and count it in another ledger. Copy private.model, or a file written by "
            "private.save()."
        )

    def __deepcopy__(self, memo):
        return self.__reduce__()

    # What this library adds

    def privacy_summary(self) -> str:
        """Returns the statement in about three lines; `privacy_statement` has the text to sign."""
        self.check_weights()
        provenance = self.session.provenance
        return privacy_summary(provenance.stated_ledger, provenance.digest())

    def privacy_statement(self) -> str:
        """Returns in plain English the guarantee, whom it protects, and what it does not cover.

        It is about the present weights: if these are not known to be of this run, it says so.
        """
        self.check_weights()
        provenance = self.session.provenance
        return privacy_statement(provenance.stated_ledger, provenance.digest())

    def privacy_statement_json(self) -> dict[str, Any]:
        """Returns the same as a dict that JSON can hold; see `tfdpnorm.privacy.statement_json`."""
        self.check_weights()
        provenance = self.session.provenance
        return statement_json(provenance.stated_ledger, provenance.digest())

    def privacy_metadata(self, saved: keras.Model | None = None) -> dict[str, Any]:
        """Returns what files of this model say of it: see `tfdpnorm.privacy.metadata`.

        Args:
            saved: The Keras model in the file, if this one is a part of it.

        Returns:
            A dict that JSON can hold.
        """
        self.check_weights()
        return self.session.provenance.metadata(self.model if saved is None else saved)

    def refresh_public_statistics(self) -> None:
        """Computes the public moments for the present weights and stores them in the layers.

        `fit` does it at its end. Call it after `train_on_batch`, before using `model` by itself.
        """
        if self.streams.mode == "none":
            return
        self.streams.recorded(self.streams.public_batch, training=False).store()

    def restore_run(self, callbacks: Sequence[keras.callbacks.Callback] = ()) -> bool:
        """Restores the last checkpoint of `run_dir`; `fit` does it by itself.

        For a run whose updates are all made, which `fit` would reject. Does nothing without a
        checkpoint, or if it was restored before.

        Args:
            callbacks: Those of `fit`; the variables of callbacks with a method
                `training_state(model)` are restored with the rest.

        Returns:
            Whether it restored anything.

        Raises:
            ValueError: if the weights do not fit the model.
        """
        restored = self._resumption.restore(self, callbacks)
        if restored:
            self.session.leave(self.optimizer)
            self.refresh_public_statistics()
        return restored

    def servable(self) -> keras.Model:
        """Returns a Keras model that predicts as this one does, without private training.

        That is the wrapped model with its public moments up to date, or, in the statistics modes
        "example" and "lot", whose test phase runs the public rows with every example, a
        `PublicRowsModel` that holds them.
        """
        self.refresh_public_statistics()
        if self.streams.mode in ("example", "lot"):
            served = PublicRowsModel(self.model, self.streams.public_batch)
            # Called once, Keras knows the shape of its input and can save it.
            served(tf.nest.map_structure(lambda t: t[:1], self.streams.public_batch))
            return served
        return self.model if self.task is None or self.conversion is not None else self.task

    @property
    def update_count(self) -> tf.Variable:
        """Variable, int64: the number of the next update's noise; see `GaussianNoise`."""
        return self._noise.update_count

    @property
    def engine(self) -> str:
        """Name of the engine that computes the clipped sums."""
        return self._update.engine.now.name

    @property
    def loss_scale(self) -> float:
        """The factor on losses, by which gradients are divided again before the clip."""
        return self._update.clipping.loss_scale

    @property
    def statistics(self) -> str:
        """The statistics modes of the model's public-batch layers, or "none"."""
        return self.streams.statistics

    def rows_to_predict_at_once(self, x: Any, batch_size: int) -> int:
        """Returns how many rows `predict` may run together so that none changes another's answer.

        That is `batch_size`, if it is verified for the graph of inference for so many rows of `x`,
        a structure of arrays [N, ...], and for the rest of them; otherwise 1. Raises ValueError if
        inference keeps something of the rows before.
        """
        return rows_apart(lambda rows: self(rows, training=False), x, batch_size)

    def check_weights(self) -> None:
        """Checks, before weights are used or stated, whether this run made and counted them."""
        self.session.check_weights(int(self.update_count))

    # Details

    def _checked(self, x, y, callbacks, validation_is_public, arguments):
        """The data of `fit`, its batches, callbacks and other arguments, all checked."""
        check_no_strategy(self.model)
        if self.session.batches.is_training:  # in a callback or in another thread
            raise ValueError("fit() is already running. Wait until it returns.")
        self._check_ready_for_training()
        self.session.check_variables()
        given = {k: v for k, v in arguments.items() if v is not None or k not in _OF_DATA}
        x, y, given = preprocessed_for_fit(self.task, x, y, given)
        with without_private_values():  # Sources are read already, to compare their rows.
            batches = checked_batches(self, self.streams, self._update.views, x, y, given)
            self.session.check_variables(some=True)
            callbacks = self._entered(batches, callbacks, validation_is_public, given)
        return x, y, batches, callbacks, given

    def _entered(self, batches, callbacks, validation_is_public, arguments):
        """Returns the callbacks of `fit`, checked, and compares its data with earlier ones."""
        callbacks = validations_first(callbacks)
        self.replicas.workers.check_fit(batches, callbacks)
        check_rate_is_settable(callbacks, self.optimizer)
        validations = [c for c in callbacks if isinstance(c, PrivateValidation)]
        looked_at = [arguments.get(name) for name in ("validation_data", "validation_steps")]
        self.session.rows.begin_fit(batches, validations, *looked_at)
        self.session.validation_is_public = validation_is_public
        check_callbacks(
            callbacks,
            self.ledger,
            validation_data_given=arguments.get("validation_data") is not None,
            validation_is_public=validation_is_public,
            names_of_metrics=self._names_of_metrics,
            names_of_logs=self._names_of_logs(),
        )
        for callback in callbacks:
            if not isinstance(callback, PrivateValidation):
                self.session.rows.check_named(named_by_evaluations(callback))
        return callbacks

    def _names_of_logs(self):
        """The names of losses and metrics that `fit` logs; None where Keras may choose others."""
        outputs = [0] if isinstance(self.model, keras.Sequential) else self.output_names or ()
        # Metrics by the names of classes, such as "AUC", may get a number behind theirs.
        if len(outputs) != 1 or any(name != name.lower() for name in self._names_of_metrics):
            return None
        return {"loss", *self._names_of_metrics}

    def _check_ready_for_training(self):
        self.session.check_ready(
            getattr(self, "optimizer", None),  # which Keras 3 has once it is compiled
            made=int(self.update_count),
            is_compiled=self._per_example_loss is not None,
        )

    def _stop_when_spent(self, batch, logs=None):
        del batch, logs
        if self.ledger.state.remaining_updates < 1:
            self.stop_training = True


_OF_DATA = ("batch_size", "person")  # which say nothing where they are None


def _as_number(value):
    return float(value) if tf.is_tensor(value) and value.shape.rank == 0 else value
