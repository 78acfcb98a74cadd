"""The model that a search tries: a cell of an experiment, trained as that experiment trains it."""

import itertools
import json
import time

from tfdpnorm import files
from tfdpnorm.tuning import PrivateHyperModel
from tfdpnorm.tuning.hypermodel import closed_on_failure
from trainers.runs.private import PrivateRun
from trainers.searches.space import grids, trial_spec

MEASURED = "measured.json"  # exact test accuracies: not in the run, which may be released


class CellHyperModel(PrivateHyperModel):
    """A cell of an experiment, of a `SearchSpec`, with some of its settings open."""

    def __init__(self, spec, data, checkpoint_every=None):
        super().__init__()
        self._checkpoint_every = checkpoint_every
        self._spec, self._data = spec, data
        self._grids = grids(spec, data.num_examples)
        for values in itertools.product(*self._grids.values()):
            # Settings that do not fit together are rejected before anything is spent.
            self._trial_spec(dict(zip(self._grids, values, strict=True)))

    def build(self, hp):
        self._chosen(hp)

    def settings(self, hp):
        """As `PrivateHyperModel`, as far as the accounting needs it."""
        spec = self._trial_spec(self._chosen(hp))
        count = self._data.num_examples
        return {
            "num_examples": count,
            "expected_batch_size": spec.expected_batch_size,
            "steps": spec.updates(count),
            "l2_norm_clip": spec.l2_norm_clip,
        }

    def lots(self):
        sizes = self._grids.get("expected_batch_size", (self._spec.run.expected_batch_size,))
        count = self._data.num_examples
        specs = [self._trial_spec({"expected_batch_size": size}) for size in sizes]
        return [(spec.expected_batch_size, spec.updates(count)) for spec in specs]

    def rehearse(self, hp, trial, x, y, **fit):
        """Does nothing: all settings were checked when this was made."""

    def train(self, hp, trial, x, y, **fit):
        """As `PrivateHyperModel`; notes what was measured in the trial's folder."""
        run = self._run(hp, trial)
        with closed_on_failure(run.model):
            run.restore()
            started = time.perf_counter()
            run.train()
            measured = {**run.measured(), "seconds": time.perf_counter() - started}
            files.write_whole(trial.run_dir.parent / MEASURED, json.dumps(measured))
        return run.model

    def restore(self, hp, trial):
        run = self._run(hp, trial)
        run.restore()
        return run.model

    def _run(self, hp, trial):
        noise = trial.noise_multiplier(self.settings(hp))
        spec = self._trial_spec(self._chosen(hp), epsilon=None, noise_multiplier=noise)
        run = PrivateRun(
            spec,
            self._data,
            run_dir=trial.run_dir,
            resume=True,
            checkpoint_every=self._checkpoint_every,
            echo=lambda text: None,
            callbacks=trial.callbacks,
        )
        trial.declare(run.model.ledger)
        return run

    def _trial_spec(self, chosen, **more):
        return trial_spec(self._spec.run, chosen, **more)

    def _chosen(self, hp):
        return {name: hp.Choice(name, list(values)) for name, values in self._grids.items()}
