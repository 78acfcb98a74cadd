"""Every metric of Keras with targets that it is for: (name, function, kind of targets)."""

import warnings

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.clean_keras import reset_names
from tests.keras_conformance import models
from tests.keras_conformance.compare import EQUAL, close, private_model
from tfdpnorm.keras_compat.variables import KERAS_3

M = keras.metrics
NOT_IN_KERAS = "not in Keras either"


def _by_name(*names):
    """Metrics without settings."""
    return {name: getattr(M, name) for name in names}


_OF_TWO_CLASSES = _by_name(
    "AUC",
    "BinaryAccuracy",
    "BinaryCrossentropy",
    "FalseNegatives",
    "FalsePositives",
    "Hinge",
    "Precision",
    "Recall",
    "SquaredHinge",
    "TrueNegatives",
    "TruePositives",
) | {
    "BinaryIoU": lambda: M.BinaryIoU([0, 1], threshold=0.5),
    "PrecisionAtRecall": lambda: M.PrecisionAtRecall(0.5, num_thresholds=20),
    "RecallAtPrecision": lambda: M.RecallAtPrecision(0.5, num_thresholds=20),
    "SensitivityAtSpecificity": lambda: M.SensitivityAtSpecificity(0.5, num_thresholds=20),
    "SpecificityAtSensitivity": lambda: M.SpecificityAtSensitivity(0.5, num_thresholds=20),
}
_OF_CLASSES = _by_name(
    "CategoricalAccuracy",
    "CategoricalCrossentropy",
    "CategoricalHinge",
    "F1Score",
    "FBetaScore",
    "KLDivergence",
    "Poisson",
    "TopKCategoricalAccuracy",
) | {"OneHotIoU": lambda: M.OneHotIoU(3, [0, 1]), "OneHotMeanIoU": lambda: M.OneHotMeanIoU(3)}
_OF_CLASS_NUMBERS = {
    "SparseCategoricalAccuracy": M.SparseCategoricalAccuracy,
    "SparseCategoricalCrossentropy": M.SparseCategoricalCrossentropy,
    "SparseTopKCategoricalAccuracy": lambda: M.SparseTopKCategoricalAccuracy(2),
    "IoU": lambda: M.IoU(3, [0, 1], sparse_y_pred=False),
    "MeanIoU": lambda: M.MeanIoU(3, sparse_y_pred=False),
}
_OF_NUMBERS = _by_name(
    "Accuracy",
    "CosineSimilarity",
    "LogCoshError",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanSquaredError",
    "MeanSquaredLogarithmicError",
    "R2Score",
    "RootMeanSquaredError",
) | (
    _by_name("ConcordanceCorrelation", "PearsonCorrelation")
    if KERAS_3
    else {"MeanRelativeError": lambda: M.MeanRelativeError(np.full([models.ROWS, 1], 0.5, "f"))}
)

# Not of targets and predictions, so that `compile` of Keras cannot take them either.
NOT_OF_TARGETS = {"Mean", "MeanMetricWrapper", "Metric", "Sum"} | (
    set() if KERAS_3 else {"MeanTensor"}
)

METRICS = [
    (name, make, kind)
    for kind, group in (
        ("binary", _OF_TWO_CLASSES),
        ("one_hot", _OF_CLASSES),
        ("sparse", _OF_CLASS_NUMBERS),
        ("numbers", _OF_NUMBERS),
    )
    for name, make in group.items()
]


def metric_outcome(make, kind, weighted):
    """Compares a metric of the first update and of `evaluate`, with rows of padding in the lot.

    Args:
        make: Function that makes the metric.
        kind: Of the targets, as in `METRICS`.
        weighted: Whether it is among `weighted_metrics`.

    Returns:
        `EQUAL` or `NOT_IN_KERAS`.

    Raises:
        AssertionError: for values that are not equal.
    """
    y, outputs = _targets(kind), 3 if kind in ("sparse", "one_hot") else 1
    end = {"binary": "sigmoid", "numbers": None}.get(kind, "softmax")
    loss = "sparse_categorical_crossentropy" if kind == "sparse" else "mse"
    x = np.random.default_rng(7).normal(size=(models.ROWS, 5)).astype(np.float32)
    plain = keras.Sequential([keras.Input((5,)), keras.layers.Dense(outputs, end)])
    wrapped = keras.models.clone_model(plain)
    wrapped.set_weights(plain.get_weights())
    private = private_model(wrapped, steps=1)
    as_argument = "weighted_metrics" if weighted else "metrics"
    weights = np.linspace(0.2, 2, models.ROWS) if weighted else None
    for model in (plain, private):
        reset_names()
        model.compile("sgd", loss, **{as_argument: [make()]})
    asked = {"sample_weight": weights, "verbose": 0}
    try:
        expected = plain.fit(x, y, models.ROWS, **asked).history
    except ValueError:
        return NOT_IN_KERAS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = private.fit(x, y, **asked).history
    for key, values in expected.items():
        close(found[key], values)
    found, expected = (m.evaluate(x, y, **asked) for m in (private, plain))
    tf.nest.map_structure(close, found, expected)
    return EQUAL


def _targets(kind):
    rng = np.random.default_rng(6)
    if kind == "sparse":
        return rng.integers(3, size=models.ROWS)
    if kind == "one_hot":
        return np.eye(3, dtype=np.float32)[rng.integers(3, size=models.ROWS)]
    if kind == "binary":
        return rng.integers(2, size=(models.ROWS, 1)).astype(np.float32)
    return rng.normal(size=(models.ROWS, 1)).astype(np.float32)
