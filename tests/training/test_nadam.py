"""NAdam takes the steps of torch.optim.NAdam."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.keras_compat.training import apply_gradients
from tfdpnorm.training import NAdam


def expected(weights, gradients, rate=2e-3, beta_1=0.9, beta_2=0.999, epsilon=1e-8, psi=4e-3):
    """The algorithm of torch.optim.NAdam's documentation, in float64."""
    mean, square, product = 0.0, 0.0, 1.0
    for t, g in enumerate(gradients, 1):
        mu, following = (beta_1 * (1 - 0.5 * 0.96 ** (s * psi)) for s in (t, t + 1))
        product *= mu
        mean = beta_1 * mean + (1 - beta_1) * g
        square = beta_2 * square + (1 - beta_2) * g**2
        root = np.sqrt(square / (1 - beta_2**t)) + epsilon
        weights = weights - rate * (1 - mu) / (1 - product) * g / root
        weights = weights - rate * following / (1 - product * following) * mean / root
    return weights


def model():
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dense(4)])


@each("settings", [{}, {"beta_1": 0.8, "momentum_decay": 0.5, "epsilon": 1e-3}])
def test_the_steps_are_those_of_pytorch(settings):
    network, optimizer = model(), NAdam(1e-2, **settings)
    optimizer = NAdam.from_config(optimizer.get_config())
    begun, rng = network.get_weights(), np.random.default_rng(0)
    gradients = [rng.normal(size=(60, *w.shape)).astype(np.float32) for w in begun]

    @tf.function
    def step(*given):
        apply_gradients(optimizer, list(given), network.trainable_variables)

    for t in range(60):
        step(*(tf.constant(g[t]) for g in gradients))
    names = {"momentum_decay": "psi"}
    reference = {names.get(name, name): value for name, value in settings.items()}
    for before, found, g in zip(begun, network.get_weights(), gradients, strict=True):
        end = expected(before, g.astype(np.float64), rate=1e-2, **reference)
        np.testing.assert_allclose(found, end, rtol=1e-4, atol=1e-5)
        assert np.abs(end - before).max() > 0.05
