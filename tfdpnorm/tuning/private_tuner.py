"""The base of all searches: a Keras Tuner whose trials are private trainings in one ledger."""

import copy
import dataclasses
import hashlib
import json
import os
import pathlib
import secrets
import warnings

import keras_tuner
from tensorflow import keras

from tfdpnorm import files
from tfdpnorm.errors import PrivacyError, PrivacyWarning
from tfdpnorm.keras_compat.training import keep_whole, run_again_what_began
from tfdpnorm.privacy import PrivacyLedger
from tfdpnorm.privacy.added_delta import check_plan
from tfdpnorm.privacy.entries import Finish, Search, Trial
from tfdpnorm.privacy.plan import unit_of
from tfdpnorm.privacy.search_calibration import calibrate_search, describe_search
from tfdpnorm.training import PrivateValidation, PublicBatch
from tfdpnorm.training.checks.callbacks import validations_first
from tfdpnorm.training.validation_data import check_validation_rows
from tfdpnorm.tuning.folder import SearchFolder, inputs_of, rows_of_search
from tfdpnorm.tuning.hypermodel import (
    ModelAndSettings,
    PrivateHyperModel,
    SearchTrial,
    check_trial_callbacks,
    checked_settings,
)
from tfdpnorm.tuning.trials import SCORE, random_values, score_of

_SAMPLED_SETTINGS = 100
_OF_FIT = ("class_weight", "epochs", "person", "sample_weight", "steps_per_epoch")


class PrivateTuner(keras_tuner.Tuner):
    """A Keras Tuner search in which every trial is a private training, and the search is charged.

    See `PrivateRandomSearch` and `PrivateBayesianOptimization`. `search_plan` is the
    `tfdpnorm.privacy.search.SearchPlan`: what each trial may spend.
    """

    def __init__(
        self,
        hypermodel,
        *,
        oracle,
        budget,
        expected_trials,
        shape,
        settings,
        lots,
        validation_is_public,
        directory,
        project_name,
    ):
        if any(name.startswith("KERASTUNER_") for name in os.environ):
            raise ValueError(
                "Keras Tuner's distributed mode is not supported: one process trains all trials. "
                "Unset KERASTUNER_ORACLE_IP, KERASTUNER_ORACLE_PORT and KERASTUNER_TUNER_ID."
            )
        if isinstance(hypermodel, PrivateHyperModel) != (settings is None):
            raise ValueError(
                "Expected settings with a function that builds a model, and none with a "
                f"PrivateHyperModel, which has its own, got {settings!r} with {hypermodel!r}."
            )
        if settings is not None:
            hypermodel = ModelAndSettings(hypermodel, settings)
        given = checked_settings(hypermodel.settings(keras_tuner.HyperParameters()))
        if _unit_of(given) == "person" and not validation_is_public:
            raise PrivacyError(
                "A search that protects persons needs public validation examples: the noise of "
                "private scores protects single rows of these. Pass validation_is_public=True if "
                'they are public; otherwise train without a search, or protect rows: unit="row".'
            )
        self.budget = budget.of(given["num_examples"])
        self.search_plan = calibrate_search(
            self.budget,
            num_examples=given["num_examples"],
            lots=hypermodel.lots() if lots is None else lots,
            expected_trials=expected_trials,
            shape=shape,
            score_is_private=not validation_is_public,
        )
        keep_whole(oracle, files.write_whole)
        super().__init__(oracle, hypermodel, directory=directory, project_name=project_name)
        # What is searched is fixed before data are looked at; what turns up later has its default.
        oracle.tune_new_entries = False
        rate, _, updates = self.search_plan.trials[0]
        batch = {"expected_batch_size": rate * given["num_examples"], "steps": updates}
        first = SearchTrial(self.search_plan, self.budget.delta, None, [])
        self._plan = first.plan({**given, **batch})  # for the ledger of the search
        ledger = PrivacyLedger(
            dataclasses.replace(self._plan, epsilon_target=self.budget.epsilon),
            {"noise_grid": "stddev / 32"},
        )
        ledger.record(Search(self.search_plan))
        check_plan(ledger)  # a budget that no trial could keep
        self._folder = SearchFolder(self.project_dir, self.search_plan, self._plan, self._fixed())
        sampled = oracle.get_space()
        for number in range(_SAMPLED_SETTINGS):
            sampled.values = random_values(sampled.space, lambda name, n=number: f"{n} {name}")
            self._check_settings(sampled)
        self._score = self._callbacks = None
        self._say = print

    def describe(self):
        """Says what the search will cost, and what else the budget would buy: several lines."""
        return describe_search(self.search_plan, self.budget)

    def search(
        self,
        x,
        y=None,
        *,
        validation_data,
        from_logits=None,
        callbacks=(),
        verbose=1,
        **fit_arguments,
    ):
        """Runs the trials that are left; none, once the search has ended.

        Args:
            x: Private training inputs, arrays [N, ...], or `tfdpnorm.data.PoissonBatches`, of a
                source or of arrays.
            y: Targets of arrays.
            validation_data: Pair (x, y) of other examples. A trial's score is the accuracy on them
                at its end, with noise unless the tuner was told that they are public.
            from_logits: Whether the outputs are logits, for models with a single output.
            callbacks: Keras callbacks; each trial gets copies of them. Keras' own that write files
                are rejected where only the winner may be released.
            verbose: 0 to say nothing. Scores are never shown.
            **fit_arguments: Of `PrivateModel.fit`: `class_weight`, `epochs`, `person`,
                `sample_weight` and `steps_per_epoch`.

        Raises:
            ValueError: for other arguments, if a validation example is a training example, the
                folder holds another search or one of other rows, or a callback asks private
                questions of its own or writes trials down.
            BlockingIOError: if another process runs this search.
        """
        unknown = [name for name in fit_arguments if name not in _OF_FIT]
        if unknown:
            raise ValueError(
                f"Expected further arguments of search() to be of {', '.join(_OF_FIT)}, got "
                f"{', '.join(unknown)}. The settings hold expected_batch_size, and the tuner takes "
                "validation_is_public. Nothing was charged."
            )
        self._callbacks = validations_first(callbacks)
        check_trial_callbacks(self._callbacks, is_composed=self.search_plan.is_composed)
        self._say = print if verbose else lambda text: None
        if self._folder.has_ended:
            self._folder.check_settings()
            self._folder.forget_secret()  # It may have been killed before it did.
            self._say("The search has ended.")
            return
        self._score = score_of(*validation_data, self.search_plan, from_logits)
        self._score.check_training_data(inputs_of(x))
        self._check_public_rows(keras_tuner.HyperParameters())
        rehearsal = SearchTrial(self.search_plan, self.budget.delta, None, self._copies())
        self.hypermodel.rehearse(keras_tuner.HyperParameters(), rehearsal, x, y, **fit_arguments)
        rows = rows_of_search(x, y, validation_data, fit_arguments)
        with self._folder.opened(rows):
            if pathlib.Path(self._get_tuner_fname()).exists():
                self.reload()  # Another process may have gone on since this tuner was made.
            self.save()
            self._say(self.describe())
            # Not one line for each trial: what is shown here gets into logs, and K is a secret.
            self._say("The trials begin.")
            super().search(x, y, verbose=0, **fit_arguments)
            self._end()

    def save(self):
        """Writes the states of the oracle and of this tuner."""
        self.oracle.save()
        files.write_whole(self._get_tuner_fname(), json.dumps(self.get_state()))

    def reload(self):
        """Loads the state of the search; a trial that was cut short as it began is run again."""
        super().reload()
        run_again_what_began(self.oracle)

    def _get_tuner_fname(self):  # which Keras Tuner asks for
        return os.path.join(self.project_dir, "tuner0.json")

    def on_trial_begin(self, trial):
        """Records the next trial in the search's ledger before it is trained."""
        self._folder.ledger.record(Trial(int(trial.trial_id)))
        super().on_trial_begin(trial)

    def run_trial(self, trial, x, y, *, verbose=0, **fit_arguments):
        """Trains and scores one trial; as in Keras Tuner."""
        keras.backend.clear_session()
        if not self.search_plan.is_composed:
            # A seed that a program sets would make the initial weights of each trial others than
            # those of the one before, and known. Trials have to be equally distributed.
            keras.utils.set_random_seed(secrets.randbelow(2**31))
        try:
            return {SCORE: self._trained_and_scored(trial, x, y, **fit_arguments)}
        except OSError as error:
            # Of the folder, not of the settings: the trial continues when the search is resumed.
            raise keras_tuner.errors.FatalRuntimeError(str(error)) from error
        except Exception as error:
            why = files.reason(error)
            warnings.warn(
                f"A trial has failed, and still counts (not for release): {why}",
                PrivacyWarning,
                stacklevel=2,
            )
            raise

    def _trained_and_scored(self, trial, x, y, **fit_arguments):
        self._check_settings(trial.hyperparameters)
        self._check_public_rows(trial.hyperparameters)
        of_search = self._trial(trial)
        private = self.hypermodel.train(trial.hyperparameters, of_search, x, y, **fit_arguments)
        try:
            private.ledger.record(Finish())
            return self._score.measure(private)
        finally:
            private.ledger.close()

    def load_model(self, trial):
        """Returns the trained `PrivateModel` of a trial; its run has ended."""
        private = self.hypermodel.restore(trial.hyperparameters, self._trial(trial))
        private.ledger.close()
        return private

    def get_best_trials(self, num_trials=1):
        """Returns the trials that ended, the best first: **not for release**, with their scores.

        At most `num_trials`; None for all.
        """
        ended = [trial for trial in self.oracle.trials.values() if trial.status == "COMPLETED"]
        # Trials are exchangeable, so that a tie is broken at random, whatever the data.
        return sorted(ended, key=lambda t: (-t.score, t.trial_id))[:num_trials]

    def run_dir_of(self, trial):
        """The folder of a trial's run: that of the winner is moved when the search has ended."""
        if self._folder.winner.exists() and trial.trial_id == self.get_best_trials()[0].trial_id:
            return self._folder.winner
        return self._folder.run_dir(trial.trial_id)

    def _trial(self, trial):
        run_dir = self.run_dir_of(trial)
        return SearchTrial(self.search_plan, self.budget.delta, run_dir, self._copies())

    def _copies(self):
        return copy.deepcopy(self._callbacks or [])

    def _end(self):
        """After the last trial."""

    def _fixed(self):
        """The settings that must not change when the search is resumed, a dict."""
        hp = keras_tuner.HyperParameters()  # Not the oracle's, which may have been reloaded.
        self.hypermodel.declare_hyperparameters(hp)
        self.hypermodel.build(hp)
        space = json.dumps(hp.get_config()["space"], sort_keys=True)
        return {
            "tuner": type(self).__name__,
            "epsilon": self.budget.epsilon,
            "space": hashlib.sha256(space.encode()).hexdigest(),
        }

    def _check_public_rows(self, hp):
        """Rejects settings whose public rows are validation rows to be protected."""
        if isinstance(self._score, PrivateValidation):
            public = PublicBatch.of(self.hypermodel.settings(hp).get("public_batch"))
            if public is not None and not public.is_synthetic:
                check_validation_rows(self._score, (), public.rows)

    def _check_settings(self, hp):
        """Rejects batches that were not planned for, and another protected unit."""
        given = checked_settings(self.hypermodel.settings(hp))
        rate, unit = given["expected_batch_size"] / given["num_examples"], _unit_of(given)
        self.search_plan.noise_for(rate, given["steps"])
        if unit != self._plan.unit:
            raise PrivacyError(
                f"Expected settings that protect a {self._plan.unit}, as the default settings do, "
                f"got a {unit}. Give the same unit in all settings."
            )


def _unit_of(settings):
    return unit_of(settings.get("unit"), settings.get("most_per_person"))
