"""Ids of words or categories that an embedding has no vector for."""

import numpy as np
from tensorflow import keras

from tfdpnorm.keras_compat.inputs import rows_by_input
from tfdpnorm.keras_compat.models import graph_inputs, sublayers, tensors_before


def check_ids(model, x):
    """Rejects ids outside of an `Embedding` that takes them.

    The model would fail on them within an update, and say when they were drawn. Looks at inputs in
    memory that go into an embedding directly.

    Args:
        model: A Keras model; of one that is not functional, nothing is known.
        x: Structure of arrays [N, ...].

    Raises:
        ValueError: naming the layer, and with nothing of the ids.
    """
    inputs, arrays = graph_inputs(model), rows_by_input(model, x)
    if len(inputs) != len(arrays):
        return
    for layer in sublayers(model):
        if not isinstance(layer, keras.layers.Embedding):
            continue
        taken = {id(tensor) for tensor in tensors_before(layer)}
        for tensor, array in zip(inputs, arrays, strict=True):
            if id(tensor) in taken and isinstance(array, np.ndarray):
                _check_range(layer, array)


def _check_range(layer, ids):
    if np.any((ids < 0) | (ids >= layer.input_dim)):
        raise ValueError(
            f"Some ids are outside of [0, {layer.input_dim}), the input_dim of {layer.name!r}. "
            "Give the layer an input_dim above the largest id (vocabularies often count an unknown "
            "word and the padding besides), or replace such ids by that of an unknown word."
        )
