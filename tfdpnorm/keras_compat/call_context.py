"""Calling a layer's own `call` once more, as Keras called it.

Version-bound: `keras.backend.learning_phase`. Private parts: `base_layer_utils.call_context` and
`autocast_variable` of Keras 2, which say whether a call is part of training and what variables are
cast to, to the layers inside as well.
"""

import contextlib
import importlib

from tensorflow import keras

_SOURCE = keras.layers.Layer.__module__.partition(".engine.")[0]  # keras.src, or tf_keras.src
_base_layer_utils = importlib.import_module(f"{_SOURCE}.engine.base_layer_utils")
_autocast_variable = importlib.import_module(f"{_SOURCE}.mixed_precision.autocast_variable")


def said_or_by_default(training):
    """Returns whether a call is training, where None leaves it to Keras.

    Args:
        training: A bool, a tensor, or None.
    """
    return keras.backend.learning_phase() if training is None else training


def context_of_call():
    """What Keras says, in the call of a layer that runs, to the layers inside: for `as_called`.

    Returns:
        Dict: whether this is training, a bool, a tensor or None; with newer packages, whatever else
        layers ask for.
    """
    context = _base_layer_utils.call_context()
    if hasattr(context, "call_context_args"):  # tf_keras 2.21
        return {"call_context_args": dict(context.call_context_args)}
    return {"training": context.training}


@contextlib.contextmanager
def as_called(layer, inputs, context):
    """Context in which layers inside of `layer` find what they found when Keras called it.

    Args:
        layer: The layer.
        inputs: What it is called with.
        context: As `context_of_call` gave it then.
    """
    calls = _base_layer_utils.call_context()
    with (
        calls.enter(layer=layer, inputs=inputs, build_graph=True, **context),
        _autocast_variable.enable_auto_cast_variables(layer._compute_dtype_object),
    ):
        yield
