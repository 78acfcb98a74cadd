"""Runs that search: many trials, one record, that of the winner with the epsilon of the search."""

import dataclasses
import json
import math
import pathlib
import tempfile

from tfdpnorm.data import split_public
from tfdpnorm.data.examples import Examples
from tfdpnorm.privacy import PrivacyBudget
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.tuning import PrivateBayesianOptimization, PrivateRandomSearch
from trainers.runs.private import known_of
from trainers.runs.skeleton import Run
from trainers.searches.hypermodel import MEASURED, CellHyperModel
from trainers.searches.plain import PlainTuner
from trainers.searches.space import grids

NOT_FOR_RELEASE = (
    "Not for release if the data are private: the epsilon assumes that only the selected trial is "
    "released."
)


class SearchRun(Run):
    """A search over settings of a run, with the budget of the run for all its trials.

    A run without privacy has no budget, and its trials cost nothing. The examples that score the
    trials are taken from `data`.
    """

    def __init__(self, spec, data, *, checkpoint_every=None, **more):
        data, self._scored = without_scored(data, spec)
        super().__init__(spec, data, **more)
        if self.run_dir is None:
            self._temporary = tempfile.TemporaryDirectory()
            self.run_dir = self._temporary.name
        self._is_private = spec.run.kind == "private"
        if self._is_private:
            self._tuner = _private_tuner(self, checkpoint_every)
        else:  # whose trials have a backup after each epoch
            self._tuner = PlainTuner(spec, self.data, self.run_dir)
        self.model = None

    def describe(self):
        spec, run = self.spec, self.spec.run
        searched = grids(spec, self.data.num_examples)
        lines = [f"  {name}: {', '.join(map(str, values))}" for name, values in searched.items()]
        return "\n".join(
            [
                f"{spec.experiment} {spec.cell}: {spec.tuner} search, {run.model} on "
                f"{run.dataset}, N = {self.data.num_examples:,}, scored on "
                f"{len(self._scored.y):,} other examples, over",
                *lines,
                self._tuner.describe(),
            ]
        )

    def restore(self):
        """Nothing: the search does it, trial by trial."""

    def train(self):
        """Runs the trials; returns the expected number of examples of the winner's training."""
        x, y = self.data.train_x, self.data.train_y
        scored = self._scored.x, self._scored.y
        self._tuner.search(x, y, validation_data=scored, verbose=0)  # `describe` has said it.
        (self.model,) = self._tuner.get_best_models()
        if self._is_private:
            plan = self.model.plan
            return self.model.ledger.state.position * plan.expected_batch_size
        return self.spec.run.updates(self.data.num_examples) * self.spec.run.examples_per_update

    def shown_seconds(self, seconds):
        """Those of the winner's training: the others' would tell how many there were."""
        return max(self._winner()["seconds"], 1e-3) if self._is_private else seconds

    def measured(self):
        winner = {name: value for name, value in self._winner().items() if name != "seconds"}
        if not self._is_private:
            return {**winner, "trials": self.trials()}
        ledger = self.model.ledger
        return {
            **winner,
            "epsilon": ledger.epsilon(),
            "epsilon_target": self.spec.run.epsilon,
            "epsilon_rdp": ledger.epsilon(),
            "epsilon_validation": ledger.validation_epsilon(),
            "epsilon_of_a_trial": ledger.state.search.trial_epsilon(ledger.plan.delta),
            "epsilon_of_trials_composed": ledger.state.search.composed_epsilon(ledger.plan.delta),
            **known_of(ledger),
            "trials": self.trials(),
        }

    def spent(self, record):
        if not record["guarantee_holds"]:
            return f"NO GUARANTEE: {'; '.join(record['no_guarantee_because'])}"
        return (
            f"epsilon {ceil_text(record['epsilon'])} with the search; one trial alone "
            f"{ceil_text(record['epsilon_of_a_trial'])}; as many trials as are expected "
            f"({self.spec.expected_trials:g}), all released, "
            f"{ceil_text(record['epsilon_of_trials_composed'])}; all three by Renyi DP"
        )

    def close(self):
        if self._is_private:
            self.model.ledger.close()

    def _winner(self):
        return self._measured(self._tuner.get_best_trials()[0])

    def _measured(self, trial):
        folder = pathlib.Path(self._tuner.get_trial_dir(trial.trial_id))
        return json.loads((folder / MEASURED).read_text())

    def trials(self):
        """Settings, score and test accuracy of the winner, or of all trials."""
        is_public = self.spec.tuner != "private_random"
        chosen = self._tuner.get_best_trials(1 if self.spec.recorded_trials == "winner" else None)
        rows = [
            {
                "settings": dict(trial.hyperparameters.values),
                "score": trial.score,
                "test_accuracy": self._measured(trial)["test_accuracy"],
                "is_winner": trial is chosen[0],
                "not_for_release": not (is_public or trial is chosen[0]),
            }
            for trial in chosen
        ]
        noted = any(row["not_for_release"] for row in rows)
        return {"note": NOT_FOR_RELEASE if noted else "", "rows": rows}


def without_scored(data, spec):
    """Pair of `ExperimentData` without the examples that score the trials, and these, `Examples`.

    They are chosen by their numbers and the seed, and nothing is looked at.
    """
    name = spec.run.dataset
    train = Examples(name, "train", data.train_x, data.train_y, data.num_classes, True)
    scored, left = split_public(train, spec.score_examples, seed=spec.seed + 1)
    scale = f"{spec.score_examples} training examples left out, to score trials on"
    scale = scale if data.scale == "full" else f"{data.scale}; {scale}"
    return dataclasses.replace(data, train_x=left.x, train_y=left.y, scale=scale), scored


def _private_tuner(search, checkpoint_every):
    spec = search.spec
    hypermodel = CellHyperModel(spec, search.data, checkpoint_every)
    shared = {
        "budget": PrivacyBudget(spec.run.epsilon, spec.run.delta),
        "directory": search.run_dir,
        "project_name": "search",
    }
    if spec.tuner == "private_random":
        more = dict(expected_trials=spec.expected_trials, distribution=spec.distribution)
        return PrivateRandomSearch(hypermodel, **more, **shared)
    trials = math.ceil(spec.expected_trials)
    return PrivateBayesianOptimization(hypermodel, trials=trials, seed=spec.run.seed, **shared)
