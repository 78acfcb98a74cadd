"""Tuners of Keras Tuner whose winner has an epsilon that includes the search."""

import copy
import hashlib
import json
import pathlib
import warnings

import keras_tuner
from tensorflow import keras

from tfdpnorm import arguments, files
from tfdpnorm.choices import SEARCH_DISTRIBUTIONS
from tfdpnorm.data import PoissonBatches
from tfdpnorm.privacy import make_plan
from tfdpnorm.privacy.search_calibration import calibrate_search, describe_search
from tfdpnorm.training import PrivateValidation
from tfdpnorm.training.fit_data import check_validation_rows
from tfdpnorm.tuning.distributed import check_distributed_mode, is_worker, tuner_file
from tfdpnorm.tuning.folder import SearchFolder
from tfdpnorm.tuning.hypermodel import (
    ModelAndSettings,
    PrivateHyperModel,
    SearchTrial,
    StopAfterEpochs,
    check_trial_callbacks,
    checked_settings,
)
from tfdpnorm.tuning.oracles import SCORE, RandomTrials
from tfdpnorm.tuning.scores import score_of

_EPOCHS = "tuner/epochs"  # How long Hyperband wants a trial to be.


class PrivateTuner(keras_tuner.Tuner):
    """A Keras Tuner search in which every trial is a private training, and the search is paid for.

    See `PrivateRandomSearch` and `ComposedSearch`.

    Attributes:
        budget: `PrivacyBudget` of the search.
        search_plan: `tfdpnorm.privacy.search.SearchPlan`: what each trial may spend.
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
        check_distributed_mode()
        if isinstance(hypermodel, PrivateHyperModel) != (settings is None):
            raise ValueError(
                "Expected settings with a function that builds a model, and none with a "
                f"PrivateHyperModel, which has its own, got {settings!r} with {hypermodel!r}."
            )
        if settings is not None:
            hypermodel = ModelAndSettings(hypermodel, settings)
        given = checked_settings(hypermodel.settings(keras_tuner.HyperParameters()))
        self.budget = budget
        self.search_plan = calibrate_search(
            budget,
            num_examples=given["num_examples"],
            lots=hypermodel.lots() if lots is None else lots,
            expected_trials=expected_trials,
            shape=shape,
            score_is_private=not validation_is_public,
        )
        super().__init__(oracle, hypermodel, directory=directory, project_name=project_name)
        # What is searched is fixed before data are looked at; what turns up later has its default.
        oracle.tune_new_entries = False
        # Keras Tuner's chief, too, hands trials out by this method of its oracle.
        self._create_trial, oracle.create_trial = oracle.create_trial, self._recorded_trial
        self._folder = SearchFolder(
            self.project_dir, self.search_plan, self._dearest(given), self._fixed()
        )
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
            x: Private training inputs, arrays [N, ...], or `tfdpnorm.data.PoissonBatches`.
            y: Targets of arrays.
            validation_data: Pair (x, y) of other examples. A trial's score is the accuracy on them
                at its end, with noise unless the tuner was told that they are public.
            from_logits: As in `PrivateValidation`, for models with a single output.
            callbacks: Keras callbacks; each trial gets copies of them.
            verbose: 0 to say nothing. Scores are never shown.
            **fit_arguments: Further arguments of `PrivateModel.fit`.

        Raises:
            ValueError: if a validation example is a training example, the folder holds another
                search, or a callback asks private questions of its own.
            BlockingIOError: if another process runs this search, or, in Keras Tuner's distributed
                mode, the same trial.
        """
        check_trial_callbacks(callbacks)
        self._callbacks = list(callbacks)
        self._say = print if verbose else lambda text: None
        if self._folder.has_ended:
            self._say("The search has ended.")
            return
        self._score = score_of(*validation_data, self.search_plan, from_logits)
        self._score.check_training_data(x.x if isinstance(x, PoissonBatches) else x)
        public = self.hypermodel.settings(keras_tuner.HyperParameters()).get("public_batch")
        if isinstance(self._score, PrivateValidation):
            check_validation_rows(self._score, None, public)
        if is_worker():
            self.oracle.get_space()  # Waits for the chief, who opens the folder before it answers.
            self._folder.check_same_search()
            super().search(x, y, verbose=0, **fit_arguments)
            return
        with self._folder.opened():
            if pathlib.Path(self._get_tuner_fname()).exists():
                self.reload()  # Another process may have gone on since this tuner was made.
            self.save()
            self._say(self.describe())
            super().search(x, y, verbose=0, **fit_arguments)
            self._end()

    def _recorded_trial(self, tuner_id):
        """The next trial of the oracle, in the ledger of the search before anybody trains it."""
        trial = self._create_trial(tuner_id)
        if trial.status == "RUNNING":
            self._folder.ledger.record_trial(int(trial.trial_id))
        return trial

    def _get_tuner_fname(self):
        # Of the chief as of a search in one process: either goes on with what the other began.
        return tuner_file(self.project_dir, self.tuner_id)

    def run_trial(self, trial, x, y, *, verbose=0, **fit_arguments):
        """Trains and scores one trial; as in Keras Tuner."""
        self._say("A trial begins.")
        keras.backend.clear_session()
        try:
            return {SCORE: self._trained_and_scored(trial, x, y, **fit_arguments)}
        except OSError as error:
            # Of the folder, not of the settings: the trial goes on when the search is resumed.
            raise keras_tuner.errors.FatalRuntimeError(str(error)) from error
        except Exception as error:
            why = files.reason(error)
            warnings.warn(f"A trial has failed, and counts: {why}", stacklevel=2)
            raise

    def _trained_and_scored(self, trial, x, y, **fit_arguments):
        of_search = self._trial(trial)
        private = self.hypermodel.train(trial.hyperparameters, of_search, x, y, **fit_arguments)
        try:
            if private.ledger.recounted:
                raise keras_tuner.errors.FailedTrialError(
                    "Expected repeated updates to come out as before, got others. The trial has "
                    "spent more than the search has planned for it, and is not released."
                )
            private.finish()
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

        Args:
            num_trials: The most of them; None for all.

        Raises:
            ValueError: in a worker of Keras Tuner's distributed mode.
        """
        if is_worker():
            raise ValueError(
                "Expected the trials to be asked for in the chief's process, got a worker, which "
                "does not have them. Ask there, or in another process once the search has ended."
            )
        ended = [trial for trial in self.oracle.trials.values() if trial.status == "COMPLETED"]
        # Trials are exchangeable, so that a tie is broken at random, whatever the data.
        return sorted(ended, key=lambda t: (-t.score, t.trial_id))[:num_trials]

    def run_dir_of(self, trial):
        """The folder of a trial's run: that of the winner is moved when the search has ended."""
        if self._folder.winner.exists() and trial.trial_id == self.get_best_trials()[0].trial_id:
            return self._folder.winner
        return self._folder.run_dir(trial.trial_id)

    def _trial(self, trial):
        callbacks = copy.deepcopy(self._callbacks or [])
        if _EPOCHS in trial.hyperparameters.values:
            callbacks.append(StopAfterEpochs(trial.hyperparameters.values[_EPOCHS]))
        run_dir = self.run_dir_of(trial)
        return SearchTrial(self.search_plan, self.budget.delta, run_dir, callbacks)

    def _end(self):
        """After the last trial."""

    def _fixed(self):
        """What must not change when the search is resumed, a dict."""
        hp = keras_tuner.HyperParameters()  # Not the oracle's, which may have been reloaded.
        self.hypermodel.declare_hyperparameters(hp)
        self.hypermodel.build(hp)
        space = json.dumps(hp.get_config()["space"], sort_keys=True)
        return {
            "tuner": type(self).__name__,
            "epsilon": self.budget.epsilon,
            "space": hashlib.sha256(space.encode()).hexdigest(),
        }

    def _dearest(self, given):
        """The `PrivacyPlan` of a trial, for the ledger of the search."""
        rate, noise, updates = self.search_plan.trials[0]
        return make_plan(
            num_examples=given["num_examples"],
            expected_batch_size=rate * given["num_examples"],
            steps=updates,
            l2_norm_clip=given["l2_norm_clip"],
            noise_multiplier=noise,
            delta=self.budget.delta,
        )


class PrivateRandomSearch(PrivateTuner):
    """Random search by a random number of private trials; the best is released, with one epsilon.

    How many trials there are is drawn in secret before the first, and so are their settings, with
    replacement. The best one, and nothing of the others, may be released: its epsilon, in its
    statement and its ledger, is that of the whole search, about twice that of a single trial. That
    is far less than of all trials together.

        tuner = PrivateRandomSearch(
            build,  # function from hyperparameters to a compiled Keras model
            settings=dict(num_examples=1000, expected_batch_size=100, steps=90, l2_norm_clip=1.0),
            budget=PrivacyBudget(epsilon=3.0, delta=1e-5),
            expected_trials=8,
        )
        tuner.search(x, y, validation_data=(other_x, other_y))
        best = tuner.get_best_models()[0]
        print(best.privacy_statement())

    Privacy:
        The budget holds for each training example, and, unless they are public, for each validation
        example, which the noised scores protect. It presumes that nobody learns how many trials
        there were, or anything of those that lost: what is in the folder besides `winner/` is not
        for release. A trial that fails counts as one that ends with the lowest score. If no trial
        was drawn, which the Poisson distribution does with probability exp(-expected_trials), there
        is no winner. A search that was killed is resumed by the same program; there is no winner
        before its last trial.

    Args:
        hypermodel: `PrivateHyperModel`, or a function from hyperparameters to a compiled Keras
            model.
        budget: `PrivacyBudget` of the whole search.
        expected_trials: E[K], the expected number of trials.
        settings: With a function: the arguments of `make_private` without those of the budget, a
            dict, or a function from hyperparameters to one.
        lots: All pairs (expected batch size, updates) that the settings may give, if these are
            searched. A trial costs the search the most that any of them does.
        distribution: Of the number of trials: "poisson", which is seldom far from its mean;
            "geometric", for many trials the cheaper; or "logarithmic", cheap, but mostly one trial.
        validation_is_public: Whether the validation data are nobody's secret: then scores are exact
            and free.
        max_consecutive_failed_trials: After so many failures one after the other the search raises.
        directory: As in Keras Tuner.
        project_name: As in Keras Tuner.

    Reference:
        Liu and Talwar (2019), "Private selection from private candidates"; Papernot and Steinke
        (2022), "Hyperparameter tuning with Renyi differential privacy", Theorems 2 and 6.
    """

    def __init__(
        self,
        hypermodel,
        *,
        budget,
        expected_trials,
        settings=None,
        lots=None,
        distribution="poisson",
        validation_is_public=False,
        max_consecutive_failed_trials=3,
        directory=None,
        project_name="private_search",
    ):
        arguments.choice("distribution", distribution, tuple(SEARCH_DISTRIBUTIONS))
        super().__init__(
            hypermodel,
            oracle=RandomTrials(max_consecutive_failed_trials),
            budget=budget,
            expected_trials=expected_trials,
            shape=SEARCH_DISTRIBUTIONS[distribution],
            settings=settings,
            lots=lots,
            validation_is_public=validation_is_public,
            directory=directory,
            project_name=project_name,
        )
        self.oracle.folder = self._folder

    def get_best_models(self, num_models=1):
        """Returns the winner, a `PrivateModel`, in a list.

        Raises:
            ValueError: for more than one model, before the search has ended, or without a winner.
        """
        return [self.load_model(self._winner(num_models))]

    def get_best_hyperparameters(self, num_trials=1):
        """Returns those of the winner, in a list; raises as `get_best_models`."""
        return [self._winner(num_trials).hyperparameters]

    def results_summary(self, num_trials=10):
        """As in Keras Tuner: **not for release**, but for the winner's settings."""
        print(
            "NOT FOR RELEASE: scores, and all trials but the best. The epsilon of this search "
            "presumes that nobody sees them."
        )
        super().results_summary(num_trials)

    def _end(self):
        best = self.get_best_trials()
        self._folder.finish(best[0].trial_id if best else None)
        self._say(
            "The search has ended." if best else "The search has ended without a trial to release."
        )

    def _winner(self, asked):
        if asked != 1:
            raise ValueError(
                f"Expected the best trial alone to be asked for, got {asked}: the search is paid "
                "for as one that releases nothing of the others. Use ComposedSearch to have all."
            )
        trials = self.get_best_trials()
        if not (self._folder.has_ended and self._folder.winner.exists()):
            raise ValueError(
                "Expected a search that has ended with a winner, got one without: it goes on, or "
                "no trial was drawn, or all have failed. Call search() until it ends. The epsilon "
                "covers that there is none."
            )
        return trials[0]


class ComposedSearch(PrivateTuner):
    """A search by any oracle of Keras Tuner, whose trials all count, one on top of the other.

    For those that choose settings by the scores so far, such as Bayesian optimisation and
    Hyperband. All trials, their weights and their noised scores may be released. That is dear: a
    trial's noise grows with about the square root of their number.

        oracle = keras_tuner.oracles.BayesianOptimizationOracle(
            objective=keras_tuner.Objective("score", "max"), max_trials=8
        )
        tuner = ComposedSearch(build, oracle=oracle, trials=8, budget=..., settings=...)

    Args:
        hypermodel: As in `PrivateRandomSearch`.
        oracle: `keras_tuner.Oracle` with the objective "score", to be maximised.
        budget: `PrivacyBudget` of all trials together.
        trials: The most trials that there will be.
        settings: As in `PrivateRandomSearch`.
        lots: See there.
        validation_is_public: See there.
        directory: As in Keras Tuner.
        project_name: As in Keras Tuner.
    """

    def __init__(
        self,
        hypermodel,
        *,
        oracle,
        budget,
        trials,
        settings=None,
        lots=None,
        validation_is_public=False,
        directory=None,
        project_name="composed_search",
    ):
        if getattr(oracle.objective, "name", None) != SCORE or oracle.objective.direction != "max":
            raise ValueError(
                f'Expected an oracle with objective=keras_tuner.Objective("{SCORE}", "max"), got '
                f"{oracle.objective}."
            )
        super().__init__(
            hypermodel,
            oracle=oracle,
            budget=budget,
            expected_trials=trials,
            shape=None,
            settings=settings,
            lots=lots,
            validation_is_public=validation_is_public,
            directory=directory,
            project_name=project_name,
        )
        oracle.max_trials = min(trials, oracle.max_trials or trials)
