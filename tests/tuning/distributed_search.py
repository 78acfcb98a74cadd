"""One process of a search whose trials train nothing; the environment decides which.

python -m tests.tuning.distributed_search FOLDER [--epsilon=E] [--dies_in_trial] [--slow]
"""

import argparse
import os
import pathlib
import time

import keras_tuner.src.distribute.oracle_chief as oracle_chief
import numpy as np

from tests.tuning.conftest import EXAMPLES, FakeHyperModel
from tfdpnorm.privacy import PrivacyBudget
from tfdpnorm.privacy.selection import NumberOfRuns
from tfdpnorm.tuning import PrivateRandomSearch

TRIALS = 4


def rows(count, shift):
    rng = np.random.default_rng(shift)
    y = rng.integers(10, size=count)
    x = rng.random((count, 4)) + shift
    x[:, 0] = y
    return x, y


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--dies_in_trial", action="store_true")
    parser.add_argument("--slow", action="store_true")
    given = parser.parse_args()
    NumberOfRuns.draw = lambda self, rng: TRIALS
    # It looks every 20 s whether all workers have left.
    oracle_chief.time = type("Time", (), {"sleep": lambda seconds: time.sleep(0.2)})

    def before(number, hp):
        if given.dies_in_trial:
            os._exit(9)
        if given.slow:
            time.sleep(1.0)

    tuner = PrivateRandomSearch(
        FakeHyperModel(before),
        budget=PrivacyBudget(given.epsilon, 1e-5),
        expected_trials=4,
        directory=str(given.folder),
    )
    x, y = rows(EXAMPLES, 0)
    tuner.search(x, y, validation_data=rows(200, 5), verbose=0)


if __name__ == "__main__":
    main()
