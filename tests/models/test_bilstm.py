"""The BiLSTM: its size, where it is normalised, and that padding changes nothing."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm import models

SMALL = {"input_shape": (6,), "vocabulary_size": 9, "embedding_dim": 8, "units": 3}


def count(weights):
    return sum(int(np.prod(weight.shape)) for weight in weights)


def test_the_defaults_have_a_million_parameters():
    model = models.build("bilstm", "layer", num_classes=4)
    names = [layer.name for layer in model.layers]
    assert names[1:] == ["embedding", "bilstm", "bilstm_norm", "logits", "predictions"]
    assert count(model.weights) == 1_084_996 + 2 * 128


def test_layer_norm_of_the_embedding_is_over_each_word():
    model = models.build("bilstm", "layer", normalize_embedding=True, **SMALL)
    layer = model.get_layer("embedding_norm")
    assert isinstance(layer, keras.layers.LayerNormalization) and [
        axis % 3 for axis in layer.axis
    ] == [2]
    assert layer.input is model.get_layer("embedding").output


def test_padding_changes_nothing():
    """Normalised word vectors keep the mask."""
    keras.utils.set_random_seed(0)
    options = {**SMALL, "normalize_embedding": True, "norm_placement": "all"}
    model = models.build("bilstm", "layer", **options)
    longer = models.build("bilstm", "layer", **{**options, "input_shape": (9,)})
    longer.set_weights(model.get_weights())
    words = np.array([[3, 1, 4, 0, 0, 0], [2, 7, 1, 8, 2, 8], [5, 0, 0, 0, 0, 0]])
    padded = np.pad(words, ((0, 0), (0, 3)))
    outputs = model(words, training=True)
    np.testing.assert_allclose(longer(padded, training=True), outputs, atol=1e-5)
    unmasked = models.build("bilstm", "layer", **{**options, "mask_zero": False})
    unmasked.set_weights(model.get_weights())
    assert np.abs(unmasked(words, training=True) - outputs).max() > 1e-3


def test_group_norm_of_masked_words_is_rejected():
    with pytest.raises(ValueError, match="mask_zero=True"):
        models.build("bilstm", "group", normalize_embedding=True, **SMALL)
