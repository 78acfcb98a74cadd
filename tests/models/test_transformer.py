"""The transformer block: its size, its padding and its positions."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm import models

SMALL = {"input_shape": (6,), "vocabulary_size": 9, "width": 8, "heads": 2, "hidden_units": 16}
NORM = 2 * 2 * 128  # gamma and beta, twice
# Embedding; query, key, value and output; the two dense layers; logits. By hand: 326,276.
REST = 1000 * 128 + 4 * (128 * 128 + 128) + (128 * 512 + 512) + (512 * 128 + 128) + (128 * 4 + 4)


def count(weights):
    return sum(int(tf.size(weight)) for weight in weights)


@each("norm", ["none", "layer", "public_batch"])
def test_parameter_count(norm):
    model = models.build("transformer", norm=norm, num_classes=4)
    assert count(model.trainable_weights) == REST + (0 if norm == "none" else NORM)


def test_padding_changes_nothing():
    keras.utils.set_random_seed(0)
    model = models.build("transformer", norm="layer", **SMALL)
    longer = models.build("transformer", norm="layer", **{**SMALL, "input_shape": (8,)})
    longer.set_weights(model.get_weights())
    words = np.array([[3, 1, 4, 1, 5, 0]])
    padded = np.array([[3, 1, 4, 1, 5, 0, 0, 0]])
    np.testing.assert_allclose(model(words), longer(padded), atol=1e-5)
    # And the words themselves do.
    assert np.abs(model(words) - model(np.array([[3, 1, 4, 1, 6, 0]]))).max() > 1e-3


@each("options", [{"width": 9, "heads": 3}, {"width": 8, "heads": 3}])
def test_settings_out_of_range_are_rejected(options):
    with pytest.raises(ValueError, match="heads=3"):
        models.build("transformer", **{**SMALL, **options})
