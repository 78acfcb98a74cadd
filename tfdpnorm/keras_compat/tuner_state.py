"""What Keras Tuner keeps of a search, made safe against a process that is killed."""

import json
import os


def keep_whole(oracle, write):
    """Lets an oracle write its files whole or not at all.

    Keras Tuner empties a file before it fills it: killed in between, it cannot be resumed.

    Args:
        oracle: `keras_tuner.Oracle`.
        write: Function of a path and a text that writes a file whole or not at all.
    """

    def save():
        write(oracle._get_oracle_fname(), json.dumps(oracle.get_state()))

    def save_trial(trial):
        folder = oracle._get_trial_dir(trial.trial_id)
        write(os.path.join(folder, "trial.json"), json.dumps(trial.get_state()))

    oracle.save, oracle._save_trial = save, save_trial


def run_again_what_began(oracle):
    """Hands out again, after a reload, trials that began and are not in the oracle's state.

    A trial is in a file before the state of the oracle names it. Killed in between, Keras Tuner
    counts it and never runs it.
    """
    for name, trial in oracle.trials.items():
        if trial.status == "RUNNING" and name not in oracle._retry_queue:
            oracle._retry_queue.append(name)
