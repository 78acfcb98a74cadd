"""A Keras that is the same for each test."""

import pytest
from tensorflow import keras


@pytest.fixture(autouse=True)
def seeded():
    """Initial weights that are the same in each run, and the policy of before."""
    keras.utils.set_random_seed(0)
    before = keras.mixed_precision.global_policy()
    yield
    keras.mixed_precision.set_global_policy(before)
