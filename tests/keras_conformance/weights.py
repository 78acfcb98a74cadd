"""Cases of the conformance table: weights of examples, classes and steps."""

import numpy as np

from tests.keras_conformance import models
from tests.keras_conformance.case import CE, Case
from tfdpnorm.keras_compat.variables import KERAS_3


def uneven(x):
    """Sample weights of all rows, unequal."""
    del x
    return np.linspace(0.2, 2.0, models.ROWS).astype(np.float32)


def _of_steps(x):
    return np.random.default_rng(2).uniform(0.0, 2.0, x.shape[:2]).astype(np.float32)


def _by_output(x):
    return [uneven(x), uneven(x)]


_TWO = {"loss": lambda: [CE(from_logits=True), "mse"], "metrics": lambda: [["accuracy"], ["mae"]]}
_CLASSES = {0: 0.5, 1: 1.0, 2: 3.0}
_WEIGHTED = {"weighted_metrics": lambda: ["accuracy"]}

WEIGHTS = [
    Case("sample weights", models.mlp, weights=uneven, **_WEIGHTED),
    Case("sample weights, two outputs", models.two_of_each, **_TWO, weights=uneven),
    Case("class weights", models.mlp, class_weight=_CLASSES, **_WEIGHTED, quick=True),
    Case("sample weights of steps", models.words, weights=_of_steps, **_WEIGHTED),
    Case("sample weights of steps, lstm", models.lstm, weights=_of_steps),
    Case(
        "sample weights by output",
        models.two_of_each,
        **_TWO,
        weights=_by_output,
        refused="got weights by output",
    ),
]
if not KERAS_3:  # which takes one of the two
    WEIGHTS.append(
        Case("class and sample weights", models.mlp, class_weight=_CLASSES, weights=uneven)
    )
