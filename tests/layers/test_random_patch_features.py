"""Fixed random features of patches, against a loop over patches."""

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from tfdpnorm import models
from tfdpnorm.layers import RandomPatchFeatures


def patches(images, size, strides):
    """[rows, places, size * size * channels], zeros around, as "same" padding has it."""
    side = images.shape[1]
    places = -(-side // strides)
    total = max((places - 1) * strides + size - side, 0)
    around = (total // 2, total - total // 2)
    padded = np.pad(images, ((0, 0), around, around, (0, 0)))
    starts = [strides * i for i in range(places)]
    corners = [(i, j) for i in starts for j in starts]
    cut = [padded[:, i : i + size, j : j + size].reshape(len(images), -1) for i, j in corners]
    return np.stack(cut, axis=1)


@each("size, strides", [(3, 1), (4, 1), (5, 2)])
def test_against_a_loop(rng, size, strides):
    layer = RandomPatchFeatures(7, size=size, width=0.6, strides=strides)
    images = rng.random((2, 6, 6, 2)).astype(np.float32)
    images[1] *= 0.01  # patches shorter than 0.3
    found = layer(images).numpy()
    assert found.shape == tuple(layer.compute_output_shape(images.shape))
    kernel, phases = (w.numpy().astype(np.float64) for w in layer.weights)
    cut = patches(images.astype(np.float64), size, strides)
    lengths = np.linalg.norm(cut, axis=-1, keepdims=True)
    angles = cut @ kernel.reshape(-1, 7) / (0.6 * np.maximum(lengths, 0.3)) + phases
    expected = (lengths * np.cos(angles)).reshape(found.shape)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@each("wrong", [{"filters": 0}, {"size": 0}, {"width": 0.0}, {"strides": 0}])
def test_values_out_of_range(wrong):
    with pytest.raises(ValueError, match="^Expected "):
        RandomPatchFeatures(**{"filters": 3, **wrong})


def test_only_the_logits_of_the_model_are_trained(rng, tmp_path):
    model = models.build("random_features", input_shape=(8, 8, 1))
    (kernel,) = model.trainable_weights
    assert kernel.shape == (4 * 4 * 64, 10) and not np.any(kernel)
    x = rng.random((3, 8, 8, 1)).astype(np.float32)
    features = keras.Model(model.inputs, model.get_layer("logits").input)
    np.testing.assert_allclose(np.linalg.norm(features(x), axis=1), 1, rtol=1e-5)
    kernel.assign(rng.normal(size=kernel.shape))
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(loaded(x), model(x))
    with pytest.raises(ValueError, match="at least 8"):
        models.build("random_features", input_shape=(7, 7, 1), pool=4, strides=2)
