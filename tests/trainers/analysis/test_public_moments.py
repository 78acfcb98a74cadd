"""Moments of public and private rows, and the noise of the pull-back, against formulas."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.layers import PublicBatchNormalization
from trainers.analysis.public_moments import moment_mismatch, noise_through_statistics


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(400, 5)).astype(np.float32)


def dense(normalized=1):
    model = keras.Sequential([keras.Input((5,))])
    for _ in range(normalized):
        model.add(keras.layers.Dense(5, use_bias=False))
        model.add(PublicBatchNormalization(epsilon=1e-6))
    model.add(keras.layers.Dense(2))
    return model


def test_shift_and_scale_of_one_layer(rows):
    model = dense()
    model.layers[0].kernel.assign(np.eye(5))
    factors = np.array([1, 1, 2, 4, 0.5], np.float32)
    (found,) = moment_mismatch(model, rows, factors * (rows + 3 * rows.std(0) - rows.mean(0)))
    means = factors * 3 * rows.std(0) - rows.mean(0)
    assert found.shift == pytest.approx(np.sqrt(np.mean((means / rows.std(0)) ** 2)), rel=1e-3)
    assert found.scale == pytest.approx(np.exp(np.log(factors).mean()), rel=1e-3)
    assert found.uneven == pytest.approx(np.log(factors).std(), rel=1e-3)
    assert found.correlation < 1e-3
    assert found.amplification == pytest.approx(1 / rows.var(0).min(), rel=1e-3)


def test_private_rows_go_on_with_public_moments(rows):
    model = dense(normalized=2)
    _, second = moment_mismatch(model, rows, rows + 1)
    assert second.scale == pytest.approx(1, abs=0.01) and second.shift > 0.1
    assert all(found.shift < 1e-3 for found in moment_mismatch(model, rows, rows))


def test_noise_that_is_pulled_back(rows):
    """For y = gamma (z - mu) / s: N(0, 1) by gamma and beta reaches the kernel w of z = x w."""
    model = dense()
    gamma = np.linspace(0.5, 2, 5).astype(np.float32)
    model.layers[1].gamma.assign(gamma)
    (found,) = noise_through_statistics(model, rows, draws=400).items()
    kernel = model.layers[0].kernel.numpy()
    centred = rows - rows.mean(0)
    variance = (centred @ kernel).var(0)
    of_mean = np.sum(rows.mean(0) ** 2) * gamma**2 / variance
    of_variance = np.sum((centred.T @ centred / 400 @ kernel) ** 2, 0) * gamma**2 / variance**2
    assert found[1] == pytest.approx(np.sqrt((of_mean + of_variance).mean() / 5), rel=0.1)
