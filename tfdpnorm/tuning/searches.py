"""Searches for hyperparameters: at random with one epsilon, or by scores, all trials charged."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import keras_tuner

from tfdpnorm import arguments
from tfdpnorm.choices import SEARCH_DISTRIBUTIONS
from tfdpnorm.errors import PrivacyError, PrivacyWarning
from tfdpnorm.training.resume.run_folder import write_statement
from tfdpnorm.tuning.private_tuner import PrivateTuner
from tfdpnorm.tuning.trials import NOT_FOR_RELEASE, RandomTrials, objective

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from tfdpnorm.privacy.budget import PrivacyBudget
    from tfdpnorm.training.private_model import PrivateModel
    from tfdpnorm.tuning.hypermodel import PrivateHyperModel


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
        example, which the noisy scores protect. With `most_per_person` in the settings it holds for
        each person, and the validation examples have to be public. It presumes that no one learns
        how many trials there were, or anything of those that lost: what is in the folder besides
        `winner/` is not for release. A trial that fails counts as one that ends with the lowest
        score. If no trial was drawn, which the Poisson distribution does with probability
        exp(-expected_trials), there is no winner. A search that was killed is resumed by the same
        program; there is no winner before its last trial. A trial that was cut short continues with
        the updates that are left: it presumes that neither data nor settings decide when a process
        dies.

    Args:
        hypermodel: `PrivateHyperModel`, or a function from hyperparameters to a compiled Keras
            model.
        budget: `PrivacyBudget` of the whole search.
        expected_trials: E[K], the expected number of trials.
        settings: With a function: the arguments of `make_plan` and `make_private` without those of
            the budget, a dict, or a function from hyperparameters to one.
        lots: All pairs (expected batch size, updates) that the settings may give, if these are
            searched. A trial costs the search the most that any of them does.
        distribution: Of the number of trials: "poisson", which is seldom far from its mean, or
            "geometric", for many trials the cheaper.
        validation_is_public: Whether the validation data are public: then scores are exact
            and free.
        max_consecutive_failed_trials: After so many failures one after the other the search raises.
        directory: Folder of all searches.
        project_name: Name of the folder of this search in it.

    Reference:
        Liu and Talwar (2019), "Private selection from private candidates"; Papernot and Steinke
        (2022), "Hyperparameter tuning with Renyi differential privacy", Theorems 2 and 6.
    """

    def __init__(
        self,
        hypermodel: PrivateHyperModel | Callable,
        *,
        budget: PrivacyBudget,
        expected_trials: float,
        settings: Mapping[str, Any] | Callable | None = None,
        lots: Sequence[tuple[float, int]] | None = None,
        distribution: str = "poisson",
        validation_is_public: bool = False,
        max_consecutive_failed_trials: int = 3,
        directory: str | os.PathLike | None = None,
        project_name: str = "private_search",
    ) -> None:
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

    def get_best_models(self, num_models: int = 1) -> list[PrivateModel]:
        """Returns the winner, a `PrivateModel`, in a list.

        Raises:
            ValueError: for more than one model, before the search has ended, or without a winner.
        """
        return [self.load_model(self._winner(num_models))]

    def load_model(self, trial: Any) -> PrivateModel:
        """Returns the winner's `PrivateModel`, and writes its statement to `winner/`.

        Raises ValueError for another trial, which is not for release.
        """
        if self._winner(1).trial_id != trial.trial_id:
            raise PrivacyError(
                "This is not the selected trial: the epsilon of the search covers the release of "
                "the selected trial only. Use PrivateBayesianOptimization to release all."
            )
        private = super().load_model(trial)
        write_statement(self._folder.winner, private)
        return private

    def get_best_hyperparameters(self, num_trials: int = 1) -> list[keras_tuner.HyperParameters]:
        """Returns those of the winner, in a list; raises as `get_best_models`."""
        return [self._winner(num_trials).hyperparameters]

    def results_summary(self, num_trials: int = 10) -> None:
        """Prints trials and scores: **not for release**, but for the winner's settings."""
        print(NOT_FOR_RELEASE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # It is said above.
            super().results_summary(num_trials)

    def _end(self):
        best = self.get_best_trials()
        self._folder.finish(best[0].trial_id if best else None)
        self._say(
            "The search has ended." if best else "The search has ended without a trial to release."
        )

    def _winner(self, asked):
        if asked != 1:
            raise PrivacyError(
                f"Only the best trial can be requested, got {asked}: the epsilon of the search "
                "covers the release of that trial only. Use PrivateBayesianOptimization to release "
                "all."
            )
        trials = self.get_best_trials()
        if not self._folder.has_ended:
            raise PrivacyError("The search has not ended. Call search() again until it ends.")
        if not self._folder.winner.exists():
            cause = "every trial failed" if self.oracle.trials else "it drew no trials"
            raise PrivacyError(
                f"The search has ended without a result, since {cause}. Its budget is spent, and "
                "its epsilon covers learning this; a new search on the same data costs its budget "
                "in addition. More expected_trials make a search without trials less likely."
            )
        return trials[0]


class PrivateBayesianOptimization(PrivateTuner):
    """Bayesian optimisation: settings follow from the scores so far, and every trial is charged.

    All trials, their weights and their noisy scores may be released. This is expensive: a trial's
    noise grows with about the square root of their number.

        tuner = PrivateBayesianOptimization(build, trials=8, budget=..., settings=...)

    Args:
        hypermodel: `PrivateHyperModel`, or a function from hyperparameters to a compiled Keras
            model.
        budget: `PrivacyBudget` of all trials together.
        trials: The most trials that there will be.
        settings, lots, validation_is_public, max_consecutive_failed_trials: Those of
            `PrivateRandomSearch`.
        num_initial_points: How many trials have random settings first; default: three for each
            hyperparameter.
        seed: Of the choice of settings; never of noise.
        directory: Folder of all searches.
        project_name: Name of the folder of this search in it.
    """

    def __init__(
        self,
        hypermodel: PrivateHyperModel | Callable,
        *,
        budget: PrivacyBudget,
        trials: int,
        settings: Mapping[str, Any] | Callable | None = None,
        lots: Sequence[tuple[float, int]] | None = None,
        validation_is_public: bool = False,
        max_consecutive_failed_trials: int = 3,
        num_initial_points: int | None = None,
        seed: int | None = None,
        directory: str | os.PathLike | None = None,
        project_name: str = "bayesian_optimization",
    ) -> None:
        oracle = keras_tuner.oracles.BayesianOptimizationOracle(
            objective(),
            max_trials=trials,
            num_initial_points=num_initial_points,
            seed=seed,
            max_consecutive_failed_trials=max_consecutive_failed_trials,
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
