"""A case of the conformance table, run by Keras and privately, and compared.

The expected lot is all rows, so that every update sees all of them, as Keras' do with a batch of
all rows.
"""

import warnings
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.clean_keras import reset_names
from tests.keras_conformance import models
from tests.private_of import private_of
from tfdpnorm.keras_compat.models import sublayers

UPDATES = 5
EQUAL = "equal"
_OF_PRIVACY = ["nonfinite_gradients", "epsilon"]


class Outcome(NamedTuple):
    """What came of a case.

    Attributes:
        engine: Name of the engine that trained it, or None.
        refused_by: None, or "make_private", "compile" or "fit".
        refusal: The text of the refusal, or None.
    """

    engine: str | None
    refused_by: str | None = None
    refusal: str | None = None


def outcome_of(case, folder):
    """Trains, evaluates and predicts with both, and compares all that they give.

    Args:
        case: `tests.keras_conformance.case.Case`.
        folder: `pathlib.Path` of an empty folder, for what callbacks write.

    Returns:
        `Outcome`.

    Raises:
        AssertionError: for what is not equal, and for a refusal after an update is in the ledger.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _outcome_of(case, folder)


def close(found, expected):
    """Asserts that numbers are equal but for rounding."""
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-6)


def private_model(model, **settings):
    """Made private, without clip and noise, for lots of all rows in physical batches of 8."""
    return private_of(
        model,
        num_examples=models.ROWS,
        expected_batch_size=models.ROWS,
        l2_norm_clip=1e6,
        noise_multiplier=0.0,
        delta=1e-3,
        **{"steps": UPDATES, "physical_batch_size": 8, **settings},
    )


def _compiled(model, case):
    reset_names()  # which are told apart by numbers
    model.compile(
        case.optimizer(),
        case.loss(),
        metrics=case.metrics(),
        weighted_metrics=case.weighted_metrics(),
        loss_weights=case.loss_weights,
    )


def _made(case):
    keras.utils.set_random_seed(3)
    return case.model()


def _outcome_of(case, folder):
    wrapped, x, y = _made(case)
    weights = case.weights(x) if case.weights else None
    is_built = all(layer.built for layer in (wrapped, *sublayers(wrapped)))
    first = wrapped.get_weights() if is_built else None
    private, step = None, "make_private"
    try:
        private = private_model(wrapped, physical_batch_size=case.physical)
        step = "compile"
        _compiled(private, case)
        step = "fit"
        found = _fitted(private, case, folder / "private", x, y, weights)
    except ValueError as error:
        updates = 0 if private is None else private.ledger.updates
        assert updates == 0, f"refused after {updates} updates: {error}"
        return Outcome(None, step, str(error))
    plain, x, y = _made(case)
    if first is None:
        plain(tf.nest.map_structure(lambda t: t[:1], x))
        first = plain.get_weights()
    plain.set_weights(first)
    _compiled(plain, case)
    of_keras = weights if case.keras_weights else None
    expected = _fitted(plain, case, folder / "plain", x, y, of_keras, batch_size=models.ROWS)
    _compare_training(private, plain, first, found, expected)
    _compare_results(private, plain, x, y, of_keras)
    assert private.metrics_names[: len(plain.metrics_names)] == plain.metrics_names
    return Outcome(private.engine)


def _fitted(model, case, folder, x, y, weights, **options):
    folder.mkdir()
    if case.validated:
        options["validation_data"] = (tf.nest.map_structure(lambda t: 0.9 * t, x), y)
    return model.fit(
        x,
        y,
        epochs=UPDATES,
        verbose=0,
        sample_weight=weights,
        class_weight=case.class_weight,
        callbacks=case.callbacks(folder),
        shuffle=False,
        **options,
    )


def _compare_training(private, plain, first, found, expected):
    for w, v, before in zip(private.get_weights(), plain.get_weights(), first, strict=True):
        scale = max(np.abs(v - before).max(), 1e-4)
        np.testing.assert_allclose(w, v, atol=1e-3 * scale)
    names = list(expected.history)
    assert [name for name in found.history if name not in _OF_PRIVACY] == names
    assert found.epoch == expected.epoch
    for name in names:
        close(found.history[name], expected.history[name])


def _compare_results(private, plain, x, y, weights):
    for given in {id(w): w for w in (None, weights)}.values():
        asked = {"sample_weight": given, "verbose": 0, "batch_size": 5}
        found, expected = (model.evaluate(x, y, **asked) for model in (private, plain))
        tf.nest.map_structure(close, found, expected)
    tf.nest.map_structure(close, private.test_on_batch(x, y), plain.test_on_batch(x, y))
    tf.nest.map_structure(close, private.predict(x, verbose=0), plain.predict(x, verbose=0))
