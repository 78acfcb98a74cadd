"""What the tests of layers share."""

import numpy as np
import pytest
from tensorflow import keras


@pytest.fixture
def rng():
    return np.random.default_rng(20200612)


@pytest.fixture
def set_policy():
    """Function that sets the global dtype policy, which is put back after the test."""
    before = keras.mixed_precision.global_policy()
    yield keras.mixed_precision.set_global_policy
    keras.mixed_precision.set_global_policy(before)
