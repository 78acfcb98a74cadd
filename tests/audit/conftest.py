"""A clean Keras for each test."""

import warnings

import pytest
import tensorflow as tf
from tensorflow import keras


@pytest.fixture
def clean_keras():
    """No test sees another's seed, policy or graph; and a warning is a failure.

    Graphs are optimised after each test as they were before.
    """
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Per-example independence could not be checked")
        yield
    keras.mixed_precision.set_global_policy("float32")
    assert not tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer")
