"""What `fit` shows of the examples: no row of padding has a part in it."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

L = keras.layers
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def _unit(t):
    return t / tf.norm(t, axis=-1, keepdims=True)


def test_a_model_that_makes_nan_of_rows_of_zeros(private):
    """10 rows in two physical batches of 8: 6 rows of padding, whose gradients are not counted."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(10, 4)).astype(np.float32)
    model = keras.Sequential([keras.Input((4,)), L.Lambda(_unit), L.Dense(3)])
    settings = {"num_examples": 10, "expected_batch_size": 10, "steps": 1}
    settings |= {"noise_multiplier": 0.0, "physical_batch_size": 8}
    trained = private(model, **settings)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    y = rng.integers(3, size=10)
    entropy = keras.metrics.SparseCategoricalCrossentropy(name="entropy", from_logits=True)
    trained.compile(
        keras.optimizers.SGD(0.0), loss, metrics=["accuracy"], weighted_metrics=[entropy]
    )
    history = trained.fit(x, y, verbose=0).history
    expected = model(x)
    assert history["loss"][0] == pytest.approx(float(loss(y, expected)), rel=1e-5)
    right = (np.argmax(expected, 1) == y).mean()
    assert history["accuracy"][0] == pytest.approx(right)
    assert history["entropy"][0] == pytest.approx(history["loss"][0], rel=1e-5)
    assert history["nonfinite_gradients"] == [0]
    evaluated = trained.evaluate(x, y, verbose=0, return_dict=True)
    assert evaluated == pytest.approx({k: history[k][0] for k in evaluated}, rel=1e-5)
