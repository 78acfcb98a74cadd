"""Activations of residual blocks against a computation by hand."""

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from tfdpnorm import models
from trainers.analysis.activations import block_activations, residual_additions


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "scale_norm"])
def model(request):
    keras.utils.set_random_seed(4)
    return models.build("resnet9", input_shape=(16, 16, 3), scale_norm=request.param)


def images(rows=5):
    return np.random.default_rng(0).normal(size=(rows, 16, 16, 3)).astype(np.float32)


@each("batch_size", [1, 2, 100])
def test_moments_and_counts(model, batch_size):
    (layer, _), x = residual_additions(model), images()
    found = block_activations(model, layer, x, batch_size=batch_size, bins=11, limits=(-1, 1))
    names = {"residual": "conv2_pool", "convolutional": "residual1_conv2_mish"}
    for path in ("residual", "convolutional", "output"):
        name = names.get(path, layer.name)
        values = keras.Model(model.inputs, model.get_layer(name).output)(x).numpy()
        moments = getattr(found, path)
        np.testing.assert_allclose(moments.mean, values.mean(), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(moments.stddev, values.std(), rtol=1e-4)
        assert moments.counts.sum() == values.size
        expected, _ = np.histogram(np.clip(values.astype(float), -1, 1), np.linspace(-1, 1, 12))
        assert np.abs(moments.counts - expected).sum() <= 1e-4 * values.size
