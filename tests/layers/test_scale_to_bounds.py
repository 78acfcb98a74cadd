"""Columns between public bounds."""

import numpy as np
from tensorflow import keras

import tfdpnorm
from tfdpnorm.layers import ScaleToBounds

LOW, HIGH = [0.0, 2e6], [1e-3, 5e6]


def test_columns_are_scaled_and_clipped():
    layer = ScaleToBounds(LOW, HIGH)
    rows = [[0.0, 5e6], [5e-4, 3.5e6], [-np.inf, 1e9], [np.nan, 2e6]]
    expected = [[-1, 1], [0, 0], [-1, 1], [np.nan, -1]]
    np.testing.assert_allclose(layer(np.array(rows)), expected, atol=1e-6)
    np.testing.assert_allclose(ScaleToBounds(0, 255)(np.array([[0, 255]], "uint8")), [[-1, 1]])
    again = ScaleToBounds.from_config(layer.get_config())
    np.testing.assert_allclose(again(np.array(rows)), expected, atol=1e-6)


def test_half_precision_does_not_round_large_columns():
    policy = keras.mixed_precision
    policy.set_global_policy("mixed_float16")
    try:
        scaled = ScaleToBounds(LOW, HIGH)(np.array([[5e-4, 3.5e6]], "float32"))
    finally:
        policy.set_global_policy("float32")
    np.testing.assert_allclose(scaled, [[0, 0]], atol=1e-6)


def test_a_model_that_begins_with_it_is_verified_and_not_warned_of(recwarn):
    rng = np.random.default_rng(0)
    x = rng.uniform(LOW, HIGH, (300, 2)).astype("float32")
    model = keras.Sequential([keras.Input((2,)), ScaleToBounds(LOW, HIGH), keras.layers.Dense(2)])
    budget = tfdpnorm.PrivacyBudget(8.0, 1e-5)
    private = tfdpnorm.make_private(model, budget=budget, num_examples=300, epochs=4)
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    private.fit(x, (x[:, 1] > 3.5e6).astype(int), verbose=0)
    assert private.ledger.guarantee_holds
    assert not [w for w in recwarn if "large numbers" in str(w.message)]
