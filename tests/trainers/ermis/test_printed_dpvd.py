"""Algorithm 1 of Ermis and Cemgil, against its lines written out for a linear model."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.layers import VariationalDropoutDense
from trainers.ermis.printed_dpvd import train_as_printed


def squares(y, predictions):
    return tf.reduce_sum(tf.square(predictions - y), axis=1)


def linear(units=2, **options):
    layer = VariationalDropoutDense(units, noise="public", use_bias=False, **options)
    return keras.Sequential([keras.Input((3,)), layer])


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 3)).astype("float32")
    return x, (x[:, :2] - x[:, 2:]).astype("float32")


SETTINGS = {"batch_size": 5, "epochs": 3, "l2_norm_clip": 0.8, "initial_rate": 0.3, "decay": 0.5}


def test_without_noise_it_is_clipped_sgd(rows):
    """eta_t = eta_0 / t^gamma, the mean of clipped gradients over S, lots without replacement."""
    x, y = rows
    model = linear()
    phi = model.get_weights()[0].astype(np.float64)
    run = train_as_printed(model, squares, x, y, sigma=0.0, seed=4, **SETTINGS)
    lots = np.random.default_rng(4)
    assert run.steps == 12
    for t in range(1, 13):
        lot = lots.choice(20, 5, replace=False)
        total = 0
        for i in lot:
            gradient = np.outer(x[i], 2 * (x[i] @ phi - y[i]))
            total += gradient / max(1, np.linalg.norm(gradient) / 0.8)
        phi -= 0.3 / t**0.5 * total / 5
    np.testing.assert_allclose(run.means[0], phi, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(model.get_weights()[0], run.means[0])


def test_the_result_is_a_noisy_copy_of_the_means(rows):
    """zeta = 2 C sigma, not multiplied by the rate; also what the rows' pre-activations have."""
    x, y = rows
    y = np.tile(y, 200)
    model = linear(400)
    run = train_as_printed(model, squares, x, y, sigma=3.0, **SETTINGS)
    noise = model.get_weights()[0] - run.means[0]
    assert np.std(noise) == pytest.approx(2 * 0.8 * 3, rel=0.06)
    assert float(model.layers[0].noise_stddev) == pytest.approx(2 * 0.8 * 3)


def test_layers_are_clipped_one_by_one(rows):
    x, y = rows
    hidden = keras.layers.Dense(4, use_bias=False)
    model = keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(2, use_bias=False)])
    before = model.get_weights()
    settings = {**SETTINGS, "l2_norm_clip": 1e-3, "epochs": 1, "batch_size": 20}
    run = train_as_printed(model, squares, 100 * x[:1].repeat(20, 0), y, sigma=0.0, **settings)
    assert run.steps == 1
    for a, b in zip(before, run.means, strict=True):
        assert np.linalg.norm(a - b) == pytest.approx(0.3e-3, rel=0.05)


def test_no_guarantee_is_claimed(rows):
    seen = []
    model = linear()
    run = train_as_printed(
        model, squares, *rows, sigma=2.68, claimed_epsilon=1.0, after_epoch=seen.append, **SETTINGS
    )
    assert seen == [1, 2, 3]
    assert run.statement.startswith("NO GUARANTEE")
    assert "sigma = 2.68, for which it claims epsilon = 1.0" in run.statement
    with pytest.raises(ValueError, match="batch_size <= 20"):
        train_as_printed(model, squares, *rows, sigma=1.0, **{**SETTINGS, "batch_size": 21})
    with pytest.raises(ValueError, match="sigma"):
        train_as_printed(model, squares, *rows, sigma=-1.0, **SETTINGS)
