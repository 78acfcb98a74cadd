"""What one version of Keras has, and the other has not."""

from tensorflow import keras

from tfdpnorm.keras_compat.variables import KERAS_3


def legacy(name):
    """An optimizer class of Keras 2 from before 2.11."""
    return getattr(keras.optimizers.legacy, name)


def add_to_built(layer, name, part):
    """Sets an attribute of a layer that is built, which Keras 3 forbids, and code may do."""
    if KERAS_3:
        layer._tracker.unlock()
    setattr(layer, name, part)
