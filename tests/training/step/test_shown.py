"""What `fit` shows of the examples: nothing of padding, and whether gradients are not finite."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

L = keras.layers
WARNS = "were not finite"
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


def large(data):
    return data[0] * np.float32(1e38), data[1]


@pytest.mark.parametrize("steps_per_epoch, steps_per_execution", [(1, 1), (4, 4)])
def test_it_warns_once_of_gradients_that_are_not_finite(
    build, private, data, cross_entropy, steps_per_epoch, steps_per_execution
):
    trained = private(build(), expected_batch_size=40)  # all rows: a small lot would not do
    trained.compile("sgd", cross_entropy, steps_per_execution=steps_per_execution)
    with pytest.warns(UserWarning, match=WARNS) as caught:
        trained.fit(*large(data), verbose=0, steps_per_epoch=steps_per_epoch)
    (said,) = [str(w.message) for w in caught if WARNS in str(w.message)]
    assert "float16" not in said and "square root" in said


def test_it_is_silent_about_few_of_them(build, private, data, cross_entropy):
    x = data[0].copy()
    x[::5] *= np.float32(1e38)
    for rows in (x, data[0]):
        trained = private(build(), expected_batch_size=40)
        trained.compile("sgd", cross_entropy)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=f".*{WARNS}")
            trained.fit(rows, data[1], verbose=0)
