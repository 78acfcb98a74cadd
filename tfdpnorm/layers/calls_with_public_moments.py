"""Calls of models that hold layers with public moments."""

import contextlib

from tensorflow import keras

from tfdpnorm.keras_compat.layers import one_call_inside
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.layers.public_moments_layer import PublicMomentsLayer


def called_with_public_moments(model, x, training):
    """Returns `model(x, training=training)`, with each layer that has public moments called once.

    Such a layer inside TimeDistributed has its moments over all steps, as the rule that trains it
    has. Keras would run it step after step where the number of rows is known, or for a layer that
    is not its own, and once more for the mask.

    Args:
        model: A Keras model.
        x: Structure of [rows, ...].
        training: As in Keras.
    """
    with contextlib.ExitStack() as stack:
        for layer in sublayers(model):
            if isinstance(layer, keras.layers.TimeDistributed):
                if any(isinstance(inner, PublicMomentsLayer) for inner in sublayers(layer)):
                    stack.enter_context(one_call_inside(layer))
        return model(x, training=training)
