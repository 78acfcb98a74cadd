"""A validation leaves nothing behind, and leaves nothing out unseen."""

import warnings

import pytest
import tensorflow as tf


@pytest.fixture
def nothing_unchecked():
    """A warning that something could not be checked is a failure.

    Graphs are optimised after each test as they were before.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Per-example independence could not be checked")
        yield
    assert not tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer")
