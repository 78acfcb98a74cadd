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


def test_layer_norm_is_over_the_units_of_each_word():
    model = models.build("transformer", norm="layer", **SMALL)
    for name in ("attention_norm", "dense_norm"):
        layer = model.get_layer(name)
        assert isinstance(layer, keras.layers.LayerNormalization)
        assert [axis % 3 for axis in layer.axis] == [2]


def test_logits_are_float32(set_policy):
    set_policy("mixed_float16")
    model = models.build("transformer", norm="layer", num_classes=3, **SMALL)
    logits = model(np.array([[1, 2, 3, 0, 0, 0], [1, 2, 3, 4, 5, 6]]))
    assert logits.shape == (2, 3) and logits.dtype == tf.float32
    assert np.isfinite(logits).all()


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


def test_the_order_of_words_matters():
    keras.utils.set_random_seed(0)
    model = models.build("transformer", norm="layer", **SMALL)
    one, other = model(np.array([[1, 2, 3, 4, 5, 6]])), model(np.array([[6, 5, 4, 3, 2, 1]]))
    assert np.abs(one - other).max() > 1e-3


def test_saved_and_loaded(tmp_path):
    model = models.build("transformer", norm="layer", **SMALL)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    words = np.array([[1, 2, 3, 0, 0, 0]])
    np.testing.assert_allclose(model(words), loaded(words), atol=1e-6)


@each("options", [{"width": 9, "heads": 3}, {"width": 8, "heads": 3}])
def test_settings_out_of_range_are_rejected(options):
    with pytest.raises(ValueError, match="heads=3"):
        models.build("transformer", **{**SMALL, **options})
