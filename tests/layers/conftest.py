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
