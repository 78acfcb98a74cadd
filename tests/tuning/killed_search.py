"""Where a search may be killed, and a process that is.

python -m tests.tuning.killed_search FOLDER POINT
"""

import json
import os
import pathlib
import signal
import sys

import numpy as np
from tensorflow import keras

from tfdpnorm import PrivacyBudget, files
from tfdpnorm.training import PrivateValidation
from tfdpnorm.tuning import PrivateRandomSearch
from tfdpnorm.tuning import folder as search_folder
from tfdpnorm.tuning.private_tuner import PrivateTuner

N, STEPS, NAME = 60, 6, "search"
SECRET = bytes([4]) * 32  # With it, a search of three expected trials has three.
POINTS = ("drawn", "in the ledger", "scored", "ended", "crowned", "finished")


class Killed(BaseException):
    """In place of a signal, in the process of a test."""


def kill_at(point, folder, die):
    """Patches the library such that the second trial, or the end of the search, calls `die`.

    Args:
        point: One of `POINTS`, or "in training", which `DiesInTraining` looks after.
        folder: `pathlib.Path` of the search.
        die: Function of nothing that does not return.

    Returns:
        List of (object, attribute, value) that were replaced.
    """
    replaced = []

    def patch(owner, name, around):
        original = getattr(owner, name)
        replaced.append((owner, name, original))
        setattr(owner, name, lambda *args, **more: around(original, *args, **more))

    def state_not_written(original, path, *args, **more):
        trial = folder / "trial_0001" / "trial.json"
        waits_for = {"drawn": "RUNNING", "ended": "COMPLETED"}[point]
        if pathlib.Path(path).name == "oracle.json" and trial.exists():
            if json.loads(trial.read_text())["status"] == waits_for:
                die()
        return original(path, *args, **more)

    def trial_not_run(original, tuner, trial, *args, **more):
        if trial.trial_id == "0001":
            die()
        return original(tuner, trial, *args, **more)

    def score_not_reported(original, validation, private):
        value = original(validation, private)
        if (folder / "trial_0001" / "run").exists():
            die()
        return value

    def winner_not_told(original, source, target):
        original(source, target)
        if pathlib.Path(target).name == "winner":
            die()

    def secret_not_deleted(original, search):
        if search.path == folder:
            die()
        original(search)

    def known_secret(original, path):
        key = original(path)
        if path == folder:
            key = SECRET
            (path / search_folder.SECRET_KEY).write_text(key.hex())
        return key

    patch(search_folder, "new_key", known_secret)
    if point in ("drawn", "ended"):
        patch(files, "write_whole", state_not_written)
    elif point == "in the ledger":
        patch(PrivateTuner, "run_trial", trial_not_run)
    elif point == "scored":
        patch(PrivateValidation, "measure", score_not_reported)
    elif point == "crowned":
        patch(os, "rename", winner_not_told)
    elif point == "finished":
        patch(search_folder.SearchFolder, "forget_secret", secret_not_deleted)
    return replaced


class DiesInTraining(keras.callbacks.Callback):
    """Kills the process in the second trial, after its third update, if it is to."""

    updates_left = 10**9  # Of the class: each trial has a copy of the callback.

    def on_train_batch_end(self, batch, logs=None):
        type(self).updates_left -= 1
        if not type(self).updates_left:
            os.kill(os.getpid(), signal.SIGKILL)


def real_search(directory):
    """Runs a search whose trials train a tiny model, and returns its tuner."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(100, 5)).astype(np.float32), rng.integers(3, size=100)

    def build(hp):
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(hp.Choice("learning_rate", [0.1, 1.0])), loss)
        return model

    tuner = PrivateRandomSearch(
        build,
        settings=lambda hp: dict(
            num_examples=N,
            expected_batch_size=N,
            steps=STEPS,
            l2_norm_clip=hp.Choice("l2_norm_clip", [0.5, 1.0]),
        ),
        budget=PrivacyBudget(3.0, 1e-5),
        expected_trials=3,
        directory=str(directory),
        project_name=NAME,
    )
    scored = (x[N:], y[N:])
    tuner.search(x[:N], y[:N], validation_data=scored, callbacks=[DiesInTraining()], verbose=0)
    return tuner


if __name__ == "__main__":
    directory, where = pathlib.Path(sys.argv[1]), sys.argv[2]
    kill_at(where, directory / NAME, lambda: os.kill(os.getpid(), signal.SIGKILL))
    if where == "in training":
        DiesInTraining.updates_left = STEPS + 3
    real_search(directory)
