"""What the tests of layers share."""

import numpy as np
import pytest
from tensorflow import keras


@pytest.fixture(autouse=True)
def seeded():
    """Initial weights that are the same in each run."""
    keras.utils.set_random_seed(20200612)


@pytest.fixture
def rng():
    return np.random.default_rng(20200612)


@pytest.fixture
def set_policy():
    """Function that sets the global dtype policy, which is put back after the test."""
    before = keras.mixed_precision.global_policy()
    yield keras.mixed_precision.set_global_policy
    keras.mixed_precision.set_global_policy(before)
