"""The automatic weight of gammas and betas, against explicit Jacobians."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

import tfdpnorm
from tests.each import each
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.training import pull_back_weight
from tfdpnorm.training.public_rows import PublicBatch, Streams

ROWS = np.random.default_rng(0).normal(size=(40, 5)).astype("float32")


def network(scale=1.0):
    """A network of one public-batch layer; `scale` multiplies the weights before it."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(4, use_bias=False),
            PublicBatchNormalization(),
            keras.layers.Activation("tanh"),
            keras.layers.Dense(3),
        ]
    )
    model.layers[0].kernel.assign(model.layers[0].kernel * scale)
    return model


def settled(model):
    """The weight that `make_private` settles on."""
    streams = Streams(model, PublicBatch(ROWS, pull_back_weight="auto"))
    streams.settle()
    return streams.pull_back_weight


def expected(model):
    """w by hand: moments and their Jacobian of a linear layer, per-example gradients by loops."""
    dense, normalization, _, head = model.layers
    kernel = dense.kernel.numpy().astype(np.float64)
    rows = ROWS.astype(np.float64)
    z = rows @ kernel
    variance = z.var(axis=0) + normalization.epsilon
    # dmu_c / dK_ic = mean(x_i);  dv_c / dK_ic = 2 cov(x_i, z_c); other channels: 0. Gamma is 1.
    of_mean = rows.mean(axis=0)[:, None] / np.sqrt(variance)
    of_variance = 2 * (rows - rows.mean(axis=0)).T @ (z - z.mean(axis=0)) / len(rows)
    of_variance *= 0.5 / variance
    pulled_back = np.sum(of_mean**2) + np.sum(of_variance**2)

    normalized = (z - z.mean(axis=0)) / np.sqrt(variance)
    hidden = np.tanh(normalized)
    own = others = 0.0
    for x, n, h in zip(rows, normalized, hidden, strict=True):
        # Squared norms of the gradients of each logit, added up.
        inner = (1 - h**2)[:, None] * head.kernel.numpy()  # [4, 3]
        own += np.sum(inner**2) + np.sum((n[:, None] * inner) ** 2)
        of_kernel = np.sum(x**2) * np.sum((inner / np.sqrt(variance)[:, None]) ** 2)
        others += of_kernel + 3 * (np.sum(h**2) + 1)
    noise = (pulled_back + 8) / (5 * 4 + 4 * 3 + 3)
    return float(np.sqrt(np.sqrt(others / own) * np.sqrt(noise)))


@each("scale", [0.02, 1.0])
def test_it_is_the_formula_of_explicit_jacobians(monkeypatch, scale):
    monkeypatch.setattr(pull_back_weight, "_DRAWS", 300)
    model = network(scale=scale)
    wanted = max(1.0, expected(model))
    assert settled(model) == pytest.approx(wanted, rel=0.04, abs=0.06)


def test_making_a_model_private_settles_it_and_changes_no_weight():
    model = network(scale=0.02)
    before = [weight.copy() for weight in model.get_weights()]
    plan = tfdpnorm.make_plan(
        num_examples=20,
        expected_batch_size=10,
        steps=2,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=1e-3,
    )
    private = tfdpnorm.make_private(model, plan, public_batch=ROWS)
    settled = private.streams.pull_back_weight
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    private.fit(ROWS[:20] + 1, np.arange(20) % 3, verbose=0)
    assert private.streams.pull_back_weight == settled > 1
    measured = [tf.Variable(0.0), model.layers[1].gamma]
    assert private.streams.clip_weights(measured)[0] == 1.0
