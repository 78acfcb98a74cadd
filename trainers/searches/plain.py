"""Searches over cells that are trained without privacy, by Keras Tuner alone, on no budget."""

import json
import math
import pathlib

import keras_tuner
from tensorflow import keras

from tfdpnorm import files
from tfdpnorm.keras_compat.training import keep_whole, run_again_what_began
from tfdpnorm.tuning.hypermodel import StopAfterEpochs
from tfdpnorm.tuning.trials import SCORE, PublicScore
from trainers.runs.non_private import NonPrivateRun
from trainers.runs.weight_noise import WeightNoiseRun
from trainers.searches.hypermodel import MEASURED
from trainers.searches.run import SearchRun, oracle_of
from trainers.searches.space import grids, trial_spec
from trainers.searches.spec import NonPrivateSearchSpec, WeightNoiseSearchSpec

_EPOCHS, _WEIGHTS = "tuner/epochs", "weights"


class PlainTuner(keras_tuner.Tuner):
    """Trains the trials of a search as the cell's experiment trains them, and scores them exactly.

    Args:
        spec: `NonPrivateSearchSpec` or `WeightNoiseSearchSpec`.
        data: `ExperimentData`.
        trial_class: Class of the runs of its trials.
        directory: Folder of the search.
    """

    def __init__(self, spec, data, trial_class, directory):
        self._spec, self._data, self._trial_class = spec, data, trial_class
        self._grids = grids(spec, data.num_examples)
        oracle = oracle_of(spec, math.ceil(spec.expected_trials), data.num_examples)
        keep_whole(oracle, files.write_whole)
        super().__init__(oracle, self._chosen, directory=directory, project_name="search")

    def reload(self):
        """As in Keras Tuner; a trial that was interrupted as it began is run again."""
        super().reload()
        run_again_what_began(self.oracle)

    def describe(self):
        """Says what the search costs, in a line."""
        return (
            f"At most {math.ceil(self._spec.expected_trials)} trials, scored without noise.\n"
            f"  NO GUARANTEE: {self._trial_class.reason}"
        )

    def search(self, x, y, *, validation_data, verbose=0):
        """Runs the trials that are left; training rows are those of the `ExperimentData`."""
        super().search(validation_data, verbose=verbose)

    def run_trial(self, trial, validation_data, *, verbose=0):
        """Trains and scores one trial."""
        keras.backend.clear_session()
        run = self._run(trial)
        run.restore()
        run.train()
        folder = self.run_dir_of(trial)
        run.model.save_weights(str(folder / _WEIGHTS))
        files.write_whole(folder / MEASURED, json.dumps(run.measured()))
        return {SCORE: PublicScore(*validation_data).measure(run.model)}

    def load_model(self, trial):
        """Returns the trained Keras model of a trial."""
        model = self._run(trial).model
        model.load_weights(str(self.run_dir_of(trial) / _WEIGHTS)).expect_partial()
        return model

    def get_best_trials(self, num_trials=1):
        """Returns the trials that ended, the best first; all of them for None."""
        ended = [trial for trial in self.oracle.trials.values() if trial.status == "COMPLETED"]
        return sorted(ended, key=lambda t: (-t.score, t.trial_id))[:num_trials]

    def run_dir_of(self, trial):
        """The folder of a trial's run."""
        folder = pathlib.Path(self.get_trial_dir(trial.trial_id)) / "run"
        folder.mkdir(exist_ok=True)
        return folder

    def _run(self, trial):
        values = trial.hyperparameters.values
        spec = trial_spec(
            self._spec, self._trial_class.spec_class, self._chosen(trial.hyperparameters)
        )
        stop = [StopAfterEpochs(values[_EPOCHS])] if _EPOCHS in values else []
        return self._trial_class(
            spec,
            self._data,
            run_dir=self.run_dir_of(trial),
            resume=True,
            echo=lambda text: None,
            callbacks=stop,
        )

    def _chosen(self, hp):
        return {name: hp.Choice(name, list(values)) for name, values in self._grids.items()}


class PlainSearchRun(SearchRun):
    """A search over settings of a cell that is trained without privacy."""

    spec_class = NonPrivateSearchSpec
    trial_class = NonPrivateRun

    def made_tuner(self, checkpoint_every):
        """As `SearchRun`; these trials have a backup after each epoch."""
        return PlainTuner(self.spec, self.data, self.trial_class, self.run_dir)

    def train(self):
        """Runs the trials; returns the number of examples of the winner's training."""
        self.search()
        (self.model,) = self._tuner.get_best_models()
        return self.spec.updates(self.data.num_examples) * self.spec.examples_per_update

    def shown_seconds(self, seconds):
        """Those of the whole search: there is nothing to hide."""
        return seconds

    def measured(self):
        """Returns what the winner reached, and the trials."""
        return {**self.winner_measured(), "trials": self.trials()}

    def close(self):
        """Nothing is open."""


class WeightNoiseSearchRun(PlainSearchRun):
    """A search over settings of a cell with noise in the weights."""

    spec_class = WeightNoiseSearchSpec
    trial_class = WeightNoiseRun
