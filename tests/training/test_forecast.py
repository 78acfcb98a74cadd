"""What is said of a training before it spends anything."""

import math
import re
import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm import PrivacyBudget, PrivacyWarning, make_private, suggest
from tfdpnorm.independence.examples import input_specs, synthetic_examples
from tfdpnorm.layers import ScaleToBounds
from tfdpnorm.privacy.suggested_plan import gaussian_mu
from tfdpnorm.training.forecast import ENOUGH

layers = keras.layers


def network(last):
    keras.utils.set_random_seed(0)
    parts = [layers.Conv2D(8, 3, activation="relu"), layers.Conv2D(16, 3, activation="relu"), last]
    return keras.Sequential([keras.Input((8, 8, 1)), *parts, layers.Dense(10)])


def linear(classes=2):
    return keras.Sequential([keras.Input((30,)), layers.Dense(classes)])


def forecast(model, epsilon=3.0, count=1437):
    return suggest(model, budget=PrivacyBudget(epsilon, 1e-5), num_examples=count).forecast


@each("last", [layers.Flatten, layers.GlobalAveragePooling2D])
def test_contrast_is_that_of_single_gradients(last):
    """S over its ceiling, N mu / K, against a loop over rows."""
    model = network(last())
    found = forecast(model)
    gradients, along = [], np.random.default_rng(0).normal(size=10)
    for row in synthetic_examples(input_specs(model), 8):
        with tf.GradientTape() as tape:
            outputs = model(row[np.newaxis])[0]
            value = tf.tensordot(outputs, (along - along.mean()).astype("float32"), 1)
        parts = tape.gradient(value, model.trainable_weights)
        gradients.append(np.concatenate([np.ravel(part) for part in parts]))
    products = np.array(gradients) @ np.array(gradients).T
    single = np.trace(products)
    expected = 1 - (products.sum() - single) / (7 * single)
    assert found.signal / found.of_release == pytest.approx(expected, rel=1e-3)
    assert (expected < 0.2) == (last is layers.GlobalAveragePooling2D)
    assert found.of_release == pytest.approx(1437 * gaussian_mu(3.0, 1e-5) / 10, rel=0.1)


def test_the_advice_does_what_it_says():
    few = forecast(linear(), epsilon=0.1, count=300)
    rows, epsilon = (re.search(r"[\d.,]*\d", sentence)[0] for sentence in few.advice)
    more = forecast(linear(), 0.1, int(rows.replace(",", "")))
    assert more.signal == pytest.approx(ENOUGH, rel=0.1)
    assert forecast(linear(), float(epsilon), 300).signal == pytest.approx(ENOUGH, rel=0.1)
    assert "make_private" in few.code


def warned(model, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        private = make_private(model, **settings)
    assert private.ledger.updates == 0
    return [w for w in caught if w.category is PrivacyWarning and "ratio S" in str(w.message)]


@each("epsilon, count, times", [(0.01, 1_200, 1), (1.0, 12, 1), (3.0, 1_200, 0), (math.inf, 5, 0)])
def test_make_private_warns_once_before_anything_is_spent(epsilon, count, times):
    budget = PrivacyBudget(epsilon, 1e-5)
    assert len(warned(linear(10), budget=budget, num_examples=count)) == times
    plan = suggest(linear(10), budget=budget, num_examples=count).plan
    assert len(warned(linear(10), plan=plan)) == times


SCALINGS = {
    "bounds": (lambda: ScaleToBounds([0, 1e6], [1e-3, 5e6]), (2,)),
    "pixels": (lambda: layers.Rescaling(1 / 127.5, offset=-1), (8, 8, 1)),
    "moments": (lambda: layers.Normalization(mean=[170, 70], variance=[100, 200]), (2,)),
}


@each("name", SCALINGS)
def test_layers_that_scale_do_not_hide_inputs(name):
    make, shape = SCALINGS[name]
    parts = [keras.Input(shape), make(), layers.Flatten(), layers.Dense(3)]
    found = forecast(keras.Sequential(parts))
    assert found.signal > 0.3 * found.of_release
