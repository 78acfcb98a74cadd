"""Runs that search: many trials, one record, that of the winner with the epsilon of the search."""

import dataclasses
import json
import math
import tempfile

import keras_tuner

from tfdpnorm.data import split_public
from tfdpnorm.data.examples import Examples
from tfdpnorm.privacy import PrivacyBudget
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.tuning import ComposedSearch, PrivateRandomSearch
from tfdpnorm.tuning.distributed import is_distributed
from tfdpnorm.tuning.trials import objective
from trainers.runs.finetune import FinetuneRun
from trainers.runs.private import PrivateRun
from trainers.runs.skeleton import Run
from trainers.runs.variational import VariationalRun
from trainers.searches.hypermodel import MEASURED, CellHyperModel
from trainers.searches.space import grids
from trainers.searches.spec import FinetuneSearchSpec, SearchSpec, VariationalSearchSpec

NOT_FOR_RELEASE = (
    "Not for release, had the data been private: the epsilon presumes that nobody sees any trial "
    "but the winner."
)


class SearchRun(Run):
    """A search over settings of a cell, with the budget of the cell for all its trials.

    Args:
        spec: `SearchSpec`.
        data: `ExperimentData`, from which the examples that score the trials are taken.
        **more: See `Run`.
    """

    spec_class = SearchSpec
    trial_class = PrivateRun

    def __init__(self, spec, data, *, checkpoint_every=None, **more):
        data, self._scored = without_scored(data, spec)
        super().__init__(spec, data, **more)
        if self.run_dir is None and is_distributed():
            raise ValueError(
                "Expected --run_dir, a folder that all processes of the search see, in Keras "
                "Tuner's distributed mode, got none. Give all of them the same."
            )
        if self.run_dir is None:
            self._temporary = tempfile.TemporaryDirectory()
            self.run_dir = self._temporary.name
        self._tuner = self.made_tuner(checkpoint_every)
        self.model = None

    def made_tuner(self, checkpoint_every):
        """Returns the tuner that the spec asks for."""
        hypermodel = CellHyperModel(self.spec, self.data, self.trial_class, checkpoint_every)
        return _tuner(self.spec, hypermodel, self.run_dir, self.data.num_examples)

    def describe(self):
        """Returns in words what is about to be searched."""
        spec = self.spec
        searched = grids(spec, self.data.num_examples)
        lines = [f"  {name}: {', '.join(map(str, values))}" for name, values in searched.items()]
        return "\n".join(
            [
                f"{spec.experiment} {spec.cell}: {spec.tuner} search, {spec.model} on "
                f"{spec.dataset}, N = {self.data.num_examples:,}, scored on "
                f"{len(self._scored.y):,} other examples, over",
                *lines,
                self._tuner.describe(),
            ]
        )

    def restore(self):
        """Nothing: the search does it, trial by trial."""

    def search(self):
        """Runs the trials that are left, or, in a worker, those that the chief hands out."""
        x, y = self.data.train_x, self.data.train_y
        scored = self._scored.x, self._scored.y
        self._tuner.search(x, y, validation_data=scored, verbose=0)  # `describe` has said it.

    def train(self):
        """Runs the trials; returns the expected number of examples of the winner's training."""
        self.search()
        (self.model,) = self._tuner.get_best_models()
        plan = self.model.plan
        return self.model.ledger.state.position * plan.expected_batch_size

    def shown_seconds(self, seconds):
        """Those of the winner's training: the others' would tell how many there were."""
        return max(self._winner()["seconds"], 1e-3)

    def measured(self):
        """Returns what the winner reached, and what the search spent."""
        ledger, spec = self.model.ledger, self.spec
        return {
            **self.winner_measured(),
            "epsilon": ledger.epsilon(),
            "epsilon_target": spec.epsilon,
            "epsilon_rdp": ledger.epsilon(),
            "epsilon_pld": None,  # Only Renyi DP knows what a choice costs.
            "epsilon_validation": ledger.validation_epsilon(),
            "epsilon_of_a_trial": ledger.state.search.trial_epsilon(ledger.plan.delta),
            "epsilon_of_trials_composed": ledger.state.search.composed_epsilon(ledger.plan.delta),
            "guarantee_holds": ledger.guarantee_holds,
            "no_guarantee_because": list(ledger.state.sentences("no_guarantee")),
            "not_covered": list(ledger.state.sentences("not_covered")),
            "weights_from_elsewhere": list(ledger.state.sentences("foreign_weights")),
            "trials": self.trials(),
        }

    def spent(self, record):
        """Returns in words the epsilon of the search, or why there is none."""
        if not record["guarantee_holds"]:
            return f"NO GUARANTEE: {'; '.join(record['no_guarantee_because'])}"
        return (
            f"epsilon {ceil_text(record['epsilon'])} with the search; one trial alone "
            f"{ceil_text(record['epsilon_of_a_trial'])}, all of them composed "
            f"{ceil_text(record['epsilon_of_trials_composed'])}"
        )

    def close(self):
        """Closes the winner's ledger."""
        self.model.ledger.close()

    def winner_measured(self):
        """Returns what the winner's run has measured, a dict."""
        return {name: value for name, value in self._winner().items() if name != "seconds"}

    def _winner(self):
        best = self._tuner.get_best_trials()[0]
        return self._measured(best)

    def _measured(self, trial):
        return json.loads((self._tuner.run_dir_of(trial) / MEASURED).read_text())

    def trials(self):
        """Settings, score and test accuracy of the winner, or of all trials."""
        best = self._tuner.get_best_trials()[0]
        chosen = self._tuner.get_best_trials(None)
        is_public = self.spec.tuner != "private_random"
        if self.spec.recorded_trials == "winner":
            chosen = [best]
        rows = []
        for trial in chosen:
            accuracy = self._measured(trial)["test_accuracy"]
            rows.append(
                {
                    "settings": dict(trial.hyperparameters.values),
                    "score": trial.score,
                    "test_accuracy": accuracy,
                    "is_winner": trial is best,
                    "not_for_release": not (is_public or trial is best),
                }
            )
        noted = any(row["not_for_release"] for row in rows)
        return {"note": NOT_FOR_RELEASE if noted else "", "rows": rows}


class VariationalSearchRun(SearchRun):
    """A `SearchRun` over a cell of Ermis & Cemgil (2017)."""

    spec_class = VariationalSearchSpec
    trial_class = VariationalRun


class FinetuneSearchRun(SearchRun):
    """A `SearchRun` over a cell that trains an imported model further."""

    spec_class = FinetuneSearchSpec
    trial_class = FinetuneRun
    load = staticmethod(FinetuneRun.load)


def without_scored(data, spec):
    """Pair of `ExperimentData` without the examples that score the trials, and these, `Examples`.

    They are chosen by their numbers and the seed, and nothing is looked at.
    """
    train = Examples(spec.dataset, "train", data.train_x, data.train_y, data.num_classes, True)
    scored, left = split_public(train, spec.score_examples, seed=spec.seed + 1)
    scale = f"{spec.score_examples} training examples left out, to score trials on"
    scale = scale if data.scale == "full" else f"{data.scale}; {scale}"
    return dataclasses.replace(data, train_x=left.x, train_y=left.y, scale=scale), scored


def _tuner(spec, hypermodel, folder, num_examples):
    shared = {
        "budget": PrivacyBudget(spec.epsilon, spec.delta),
        "directory": folder,
        "project_name": "search",
    }
    if spec.tuner == "private_random":
        return PrivateRandomSearch(
            hypermodel,
            expected_trials=spec.expected_trials,
            distribution=spec.distribution,
            **shared,
        )
    trials = math.ceil(spec.expected_trials)
    oracle = oracle_of(spec, trials, num_examples)
    return ComposedSearch(hypermodel, oracle=oracle, trials=trials, **shared)


def oracle_of(spec, trials, num_examples):
    """Returns the oracle of Keras Tuner that a spec asks for, with so many trials at most."""
    if spec.tuner == "hyperband":
        per_epoch = max(1, round(num_examples / spec.examples_per_update))
        epochs = math.ceil(spec.updates(num_examples) / per_epoch)
        oracle = keras_tuner.oracles.HyperbandOracle(objective(), max_epochs=epochs, seed=spec.seed)
        oracle.max_trials = trials
        return oracle
    of = {
        "random": keras_tuner.oracles.RandomSearchOracle,
        "bayesian": keras_tuner.oracles.BayesianOptimizationOracle,
    }[spec.tuner]
    return of(objective(), max_trials=trials, seed=spec.seed)
