"""Layers that are rejected by name."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import independence

layers = keras.layers


@pytest.mark.parametrize(
    ("layer", "data", "remedy"),
    [
        (layers.Normalization, np.eye(3), r"Normalization\(mean="),
        (layers.StringLookup, np.array(["a"]), r"StringLookup\(vocabulary="),
        (layers.IntegerLookup, np.array([3]), r"IntegerLookup\(vocabulary="),
        (lambda: layers.Discretization(num_bins=2), np.eye(3), "bin_boundaries="),
        (layers.TextVectorization, np.array(["a b"]), r"TextVectorization\(vocabulary="),
    ],
    ids=["normalization", "string", "integer", "discretization", "text"],
)
def test_adapted_layers_are_rejected_with_the_remedy(layer, data, remedy, tmp_path):
    made = layer()
    made.adapt(data)
    kind = tf.string if data.dtype.kind == "U" else data.dtype
    shape = () if isinstance(made, layers.TextVectorization) else (3,)
    model = keras.Sequential([keras.Input(shape, dtype=kind), made])
    model.save(tmp_path / "model.keras")
    for found in (model, keras.models.load_model(tmp_path / "model.keras")):
        with pytest.raises(ValueError, match=f"{made.name}.*adapt.*{remedy}"):
            independence.check_known_layers(found)
