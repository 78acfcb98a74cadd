"""Without clip and noise a private model trains and reports as plain Keras does.

The expected lot is all rows, so that every update sees all of them, as Keras' do with a batch of
all rows.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.keras_conformance import models
from tests.keras_conformance.cases import CASES
from tests.keras_conformance.metrics import METRICS, NOT_OF_TARGETS
from tfdpnorm.training import make_private

UPDATES = 5
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def _compiled(model, case):
    model.compile(
        case.optimizer(),
        case.loss(),
        metrics=case.metrics(),
        weighted_metrics=case.weighted_metrics(),
        loss_weights=case.loss_weights,
    )
    return model


def _both(case):
    """The plain and the private model, and the rows; both with the same first weights."""
    keras.utils.set_random_seed(3)
    plain, x, y = case.model()
    _compiled(plain, case)
    keras.backend.reset_uids()  # names are told apart by numbers
    wrapped = case.model()[0]
    wrapped.set_weights(plain.get_weights())
    private = make_private(
        wrapped,
        num_examples=models.ROWS,
        expected_batch_size=models.ROWS,
        steps=UPDATES,
        l2_norm_clip=1e6,
        noise_multiplier=0.0,
        delta=1e-3,
        physical_batch_size=case.physical,
    )
    return plain, _compiled(private, case), x, y


def _same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.name, marks=[] if c.quick else pytest.mark.slow) for c in CASES],
)
def test_a_private_model_is_as_plain_keras(case):
    plain, private, x, y = _both(case)
    before = plain.get_weights()
    weights = case.weights(x) if case.weights else None
    of_keras = weights if case.keras_weights else None
    expected = plain.fit(x, y, models.ROWS, UPDATES, 0, sample_weight=of_keras, shuffle=False)
    found = private.fit(x, y, sample_weight=weights, verbose=0)
    for w, v, first in zip(private.get_weights(), plain.get_weights(), before, strict=True):
        scale = max(np.abs(v - first).max(), 1e-4)
        np.testing.assert_allclose(w, v, atol=1e-3 * scale)

    names = list(expected.history)
    assert list(found.history) == [*names, "nonfinite_gradients", "epsilon"]
    for name in names:
        _same(found.history[name], expected.history[name])
    for given in (None, of_keras):
        asked = {"sample_weight": given, "verbose": 0, "batch_size": 5}
        found, expected = (model.evaluate(x, y, **asked) for model in (private, plain))
        tf.nest.map_structure(_same, found, expected)
    assert private.metrics_names[: len(names)] == plain.metrics_names
    tf.nest.map_structure(_same, private.test_on_batch(x, y), plain.test_on_batch(x, y))
    tf.nest.map_structure(_same, private.predict(x, verbose=0), plain.predict(x, verbose=0))


def _targets(kind):
    rng = np.random.default_rng(6)
    if kind == "sparse":
        return rng.integers(3, size=models.ROWS)
    if kind == "one_hot":
        return np.eye(3, dtype=np.float32)[rng.integers(3, size=models.ROWS)]
    if kind == "binary":
        return rng.integers(2, size=(models.ROWS, 1)).astype(np.float32)
    return rng.normal(size=(models.ROWS, 1)).astype(np.float32)


@pytest.mark.slow_cases(
    "*-weighted",
    *(f"{name}-plain" for name, _, _ in METRICS if name != "F1Score"),
)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("name", "make", "kind"), METRICS, ids=[m[0] for m in METRICS])
def test_metrics(name, make, kind, weighted):
    """Those of the first update and of `evaluate`, with rows of padding in the lot."""
    y, outputs = _targets(kind), 3 if kind in ("sparse", "one_hot") else 1
    end = {"binary": "sigmoid", "numbers": None}.get(kind, "softmax")
    loss = "sparse_categorical_crossentropy" if kind == "sparse" else "mse"
    x = np.random.default_rng(7).normal(size=(models.ROWS, 5)).astype(np.float32)
    layers = [keras.Input((5,)), keras.layers.Dense(outputs, end)]
    plain, wrapped = keras.Sequential(layers), None
    wrapped = keras.models.clone_model(plain)
    wrapped.set_weights(plain.get_weights())
    private = make_private(
        wrapped,
        num_examples=models.ROWS,
        expected_batch_size=models.ROWS,
        steps=1,
        l2_norm_clip=1e6,
        noise_multiplier=0.0,
        delta=1e-3,
        physical_batch_size=8,
    )
    as_argument = "weighted_metrics" if weighted else "metrics"
    weights = np.linspace(0.2, 2, models.ROWS) if weighted else None
    for model in (plain, private):
        keras.backend.reset_uids()
        model.compile("sgd", loss, **{as_argument: [make()]})
    try:
        expected = plain.fit(x, y, models.ROWS, verbose=0, sample_weight=weights).history
    except ValueError:
        pytest.skip("Keras itself cannot weigh the rows of this metric")
    found = private.fit(x, y, verbose=0, sample_weight=weights).history
    for key, values in expected.items():
        _same(found[key], values)
    asked = {"sample_weight": weights, "verbose": 0}
    found, expected = (m.evaluate(x, y, **asked) for m in (private, plain))
    tf.nest.map_structure(_same, found, expected)


def test_every_metric_of_keras_is_in_the_table():
    known = {name for name in dir(keras.metrics) if name[0].isupper() and name != "KLD"}
    classes = {n for n in known if isinstance(getattr(keras.metrics, n), type)}
    assert classes == {name for name, _, _ in METRICS} | NOT_OF_TARGETS
