"""Layers that are run on a trial, and are afterwards as they were."""

import contextlib
import random

import numpy as np
from tensorflow import keras

from tfdpnorm.keras_compat.graphs import unoptimized
from tfdpnorm.keras_compat.layers import losses_put_back, repeating
from tfdpnorm.keras_compat.models import sublayers


@contextlib.contextmanager
def undisturbed(*layers):
    """Context in which random Keras layers repeat themselves, and after which all is as before.

    All includes the random numbers of Python and NumPy and the lists of added losses, but not
    variables. What is no layer is left alone.
    """
    found = [
        x
        for layer in layers
        if isinstance(layer, keras.layers.Layer)
        for x in (layer, *sublayers(layer))
    ]
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with losses_put_back(found), repeating(found), unoptimized():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
