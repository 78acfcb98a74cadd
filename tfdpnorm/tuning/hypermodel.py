"""The model of a search: what is built, trained privately, and restored, for given settings."""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING, NamedTuple

import keras_tuner
from tensorflow import keras

from tfdpnorm.errors import PrivacyError
from tfdpnorm.privacy import make_plan
from tfdpnorm.privacy.entries import Search
from tfdpnorm.privacy.search import SearchPlan
from tfdpnorm.training import (
    PrivacyTensorBoard,
    PrivateValidation,
    Progress,
    RunDir,
    make_private,
)

if TYPE_CHECKING:
    from typing import Any

    from tfdpnorm.training.private_model import PrivateModel


_OF_THE_SEARCH = (
    "accountant",
    "budget",
    "delta",
    "insecure_seed",
    "noise_multiplier",
    "run_dir",
)
_LOT = ("num_examples", "expected_batch_size", "steps")
_OF_PLAN = (*_LOT, "l2_norm_clip", "most_per_person", "unit", "statistics_budget_share")
_WRITERS = (
    keras.callbacks.CSVLogger,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.RemoteMonitor,
    keras.callbacks.TensorBoard,
    PrivacyTensorBoard,
    Progress,  # Its lines would tell how many trials there are.
)


class SearchTrial(NamedTuple):
    """The settings that a search gives to one of its trials.

    Attributes:
        delta: Of the guarantee of the search.
        run_dir: Folder of the trial's run, from which it is resumed; None for a rehearsal.
        callbacks: List of Keras callbacks, this trial's own.
    """

    search: SearchPlan
    delta: float
    run_dir: object
    callbacks: list

    def noise_multiplier(self, settings):
        """The noise multiplier for the batches in `settings`, arguments of `make_plan`."""
        rate = settings["expected_batch_size"] / settings["num_examples"]
        return self.search.noise_for(rate, settings["steps"])

    def plan(self, settings):
        """The `PrivacyPlan` of settings, arguments of `make_plan` and `make_private`."""
        count, steps = settings["num_examples"], settings["steps"]
        rate = settings["expected_batch_size"] / count
        stated = settings.get("most_per_person") if settings.get("unit") == "row" else None
        limit = self.search.most_per_batch(self.delta, count, rate, steps, stated or 1)
        return make_plan(
            noise_multiplier=self.noise_multiplier(settings),
            delta=self.delta,
            most_per_batch=limit,
            **{name: value for name, value in settings.items() if name in _OF_PLAN},
        )

    def declare(self, ledger):
        """Tells the ledger of the trial's run of the search."""
        ledger.record(Search(self.search))


class PrivateHyperModel(keras_tuner.HyperModel):
    """A Keras model with hyperparameters, in its layers, its optimizer and its private training.

    Subclass it for a model of your own: `build` returns a compiled Keras model, and `settings` the
    arguments of `make_plan` and `make_private`.

        class Mine(PrivateHyperModel):
            def build(self, hp):
                model = keras.Sequential([keras.layers.Dense(hp.Choice("units", [16, 64])), ...])
                model.compile(keras.optimizers.SGD(hp.Float("rate", 0.1, 3.0, sampling="log")), ...)
                return model

            def settings(self, hp):
                clip = hp.Choice("l2_norm_clip", [0.1, 1.0])
                return dict(num_examples=1000, expected_batch_size=100, steps=90, l2_norm_clip=clip)

    Hyperparameters, their ranges and everything else here must be chosen without looking at the
    private data.
    """

    def settings(self, hp: keras_tuner.HyperParameters) -> dict[str, Any]:
        """Returns a dict: what `make_plan` and `make_private` take and no search decides."""
        raise NotImplementedError

    def lots(self) -> list[tuple[float, int]]:
        """Returns all pairs (expected batch size, updates) that `settings` may give, a list.

        By default the one that the default hyperparameters have.
        """
        given = self.settings(keras_tuner.HyperParameters())
        return [(given["expected_batch_size"], given["steps"])]

    def declare_hyperparameters(self, hp: keras_tuner.HyperParameters) -> None:
        """Builds the model of one trial; the settings have hyperparameters, too."""
        self.settings(hp)

    def private_model(self, hp: keras_tuner.HyperParameters, trial: Any) -> PrivateModel:
        """Returns the compiled `PrivateModel` of a `SearchTrial`, whose ledger knows the search."""
        model = self.build(hp)
        settings = checked_settings(self.settings(hp))
        private = make_private(
            model,
            trial.plan(settings),
            run_dir=None if trial.run_dir is None else RunDir(trial.run_dir, resume=True),
            **{name: value for name, value in settings.items() if name not in _OF_PLAN},
        )
        trial.declare(private.ledger)
        if getattr(model, "optimizer", None) is None or not getattr(model, "loss", None):
            raise ValueError(
                "build(hp) returned a model without optimizer or loss. Call "
                "model.compile(optimizer, loss) in it."
            )
        config = model.get_compile_config() or {}
        names = ("loss_weights", "jit_compile", "steps_per_execution")
        more = {name: config[name] for name in names if config.get(name) is not None}
        private.compile(**{"optimizer": model.optimizer, "loss": model.loss, **more})
        return private

    def rehearse(
        self, hp: keras_tuner.HyperParameters, trial: Any, x: Any, y: Any, **fit: Any
    ) -> None:
        """Raises what `train` would raise before its first update, before a trial is charged."""
        private = self.private_model(hp, trial._replace(run_dir=None))
        private.check_fit(x, y, callbacks=trial.callbacks, **fit)

    def train(
        self, hp: keras_tuner.HyperParameters, trial: Any, x: Any, y: Any, **fit: Any
    ) -> PrivateModel:
        """Trains a `SearchTrial`, from where it was; returns its `PrivateModel`.

        Args:
            hp: `keras_tuner.HyperParameters`.
            trial: `SearchTrial`.
            x: Inputs [N, ...], or a structure of them.
            y: Targets [N, ...].
            **fit: Further arguments of `fit`.
        """
        private = self.private_model(hp, trial)
        with closed_on_failure(private):
            private.restore_run(trial.callbacks)
            if private.ledger.state.remaining_updates:
                private.fit(x, y, callbacks=trial.callbacks, **{"verbose": 0, **fit})
        return private

    def restore(self, hp: keras_tuner.HyperParameters, trial: Any) -> PrivateModel:
        """Returns the `PrivateModel` of a `SearchTrial` that has ended."""
        private = self.private_model(hp, trial)
        private.restore_run(trial.callbacks)
        return private


class ModelAndSettings(PrivateHyperModel):
    """A `PrivateHyperModel` of two functions of hyperparameters.

    `build` returns a compiled Keras model; `settings` returns a dict, or is one.
    """

    def __init__(self, build, settings):
        # Before the base class looks for it.
        self.build = build
        self._given = settings
        super().__init__()

    def settings(self, hp):
        """Returns the settings of one trial, a dict."""
        return dict(self._given(hp) if callable(self._given) else self._given)


def checked_settings(settings):
    """Returns arguments of `make_plan` and `make_private`; rejects those that the search decides.

    Raises ValueError also for those that are missing or unknown.
    """
    own = [name for name in _OF_THE_SEARCH if name in settings]
    if own:
        raise ValueError(
            f"The settings contain {', '.join(own)}, which the search decides. Remove them, and "
            "give the budget of the whole search to the tuner."
        )
    known = {*_OF_PLAN, *inspect.signature(make_private).parameters} - {"model", "plan", "epochs"}
    unknown = [name for name in settings if name not in known]
    missing = [name for name in (*_LOT, "l2_norm_clip") if name not in settings]
    if unknown or missing:
        raise ValueError(
            "Expected arguments of make_plan and make_private, got "
            f"{', '.join(unknown) or 'none'} unknown and {', '.join(missing) or 'none'} missing."
        )
    return settings


@contextlib.contextmanager
def closed_on_failure(private):
    """Context that closes the ledger of a trial if it fails, so that it can be resumed."""
    try:
        yield
    except BaseException:
        private.ledger.close()
        raise


def check_trial_callbacks(callbacks, *, is_composed):
    """Rejects callbacks that ask questions not planned for, or that may reveal other trials.

    With `is_composed` all trials may be released.
    """
    for callback in callbacks:
        name, monitor = type(callback).__name__, getattr(callback, "monitor", None)
        why = None
        if isinstance(monitor, str) and monitor.startswith("val_"):
            name += f" with monitor={monitor!r}"
            why = "its validation data score each trial once, at its end"
        elif isinstance(callback, PrivateValidation):
            why = "its answers would add to the cost of a trial"
        elif isinstance(callback, _WRITERS) and not is_composed:
            why = (
                "it would write losses or weights of trials that are not selected outside of the "
                "folder of the search, and these must not be released"
            )
        if why is not None:
            raise PrivacyError(f"{name} is not supported in a search: {why}. Leave it out.")
