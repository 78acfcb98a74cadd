"""Searches over cells that are trained without privacy, by Keras Tuner alone, on no budget."""

import json
import math
import pathlib

import keras_tuner
from tensorflow import keras

from tfdpnorm import files
from tfdpnorm.keras_compat.training import keep_whole, run_again_what_began
from tfdpnorm.tuning.trials import SCORE, PublicScore, objective
from trainers.runs.non_private import NonPrivateRun, reason_of
from trainers.searches.hypermodel import MEASURED
from trainers.searches.space import grids, trial_spec

_WEIGHTS = "of.weights.h5"
_ORACLES = {
    "random": keras_tuner.oracles.RandomSearchOracle,
    "bayesian": keras_tuner.oracles.BayesianOptimizationOracle,
}


class PlainTuner(keras_tuner.Tuner):
    """Trains the trials of a search as the cell's experiment trains them, and scores them exactly.

    The `SearchSpec` is of a run without privacy.
    """

    def __init__(self, spec, data, directory):
        self._spec, self._data = spec, data
        self._grids = grids(spec, data.num_examples)
        trials = math.ceil(spec.expected_trials)
        oracle = _ORACLES[spec.tuner](objective(), max_trials=trials, seed=spec.run.seed)
        keep_whole(oracle, files.write_whole)
        super().__init__(oracle, self._chosen, directory=directory, project_name="search")

    def reload(self):
        """As in Keras Tuner; a trial that was interrupted as it began is run again."""
        super().reload()
        run_again_what_began(self.oracle)

    def describe(self):
        return (
            f"At most {math.ceil(self._spec.expected_trials)} trials, scored without noise.\n"
            f"  NO GUARANTEE: {reason_of(self._spec.run)}"
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
        files.write_whole(folder.parent / MEASURED, json.dumps(run.measured()))
        return {SCORE: PublicScore(*validation_data).measure(run.model)}

    def load_model(self, trial):
        """Returns the trained Keras model of a trial."""
        model = self._run(trial).model
        model.load_weights(str(self.run_dir_of(trial) / _WEIGHTS))
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
        spec = trial_spec(self._spec.run, self._chosen(trial.hyperparameters))
        return NonPrivateRun(
            spec,
            self._data,
            run_dir=self.run_dir_of(trial),
            resume=True,
            echo=lambda text: None,
        )

    def _chosen(self, hp):
        return {name: hp.Choice(name, list(values)) for name, values in self._grids.items()}
