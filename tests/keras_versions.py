"""What one version of Keras has, and the other has not."""

import pytest
from tensorflow import keras

from tfdpnorm.keras_compat.variables import KERAS_3

needs_keras_3 = pytest.mark.skipif(not KERAS_3, reason="Keras 2 has no such thing")


def legacy(name):
    """An optimizer class of Keras 2 from before 2.11."""
    return getattr(keras.optimizers.legacy, name)


def add_to_built(layer, name, part):
    """Sets an attribute of a layer that is built, which Keras 3 forbids, and code may do."""
    if KERAS_3:
        layer._tracker.unlock()
    setattr(layer, name, part)
