"""The conformance table: what is trained both by Keras and privately, without clip and noise."""

from typing import Any, NamedTuple

import numpy as np
from tensorflow import keras

from tests.keras_conformance import models

CE = keras.losses.SparseCategoricalCrossentropy


class Case(NamedTuple):
    """One row of the table.

    Attributes:
        name: Of the test.
        model: Function that returns (model, x, y); the same weights each time after the seed.
        loss: As in `compile`, or a function that makes it, so that no two models share one.
        metrics, weighted_metrics, loss_weights: As in `compile`; functions that make them.
        optimizer: Function that makes one.
        weights: None, or a function (x) -> sample weights [rows].
        keras_weights: Whether plain Keras is given those weights, too; False where they are what
            makes an example count here as it counts in Keras.
        physical: Rows of a physical batch; other than that of the lot brings rows of padding.
        quick: Whether it is among the quick tests.
    """

    name: str
    model: Any
    loss: Any = lambda: CE(from_logits=True)
    metrics: Any = lambda: ["accuracy"]
    weighted_metrics: Any = lambda: None
    loss_weights: Any = None
    optimizer: Any = lambda: keras.optimizers.SGD(0.3)
    weights: Any = None
    keras_weights: bool = True
    physical: int | None = 8
    quick: bool = False


def _one_hot(shape):
    return np.eye(shape[1], dtype=np.float32)[np.arange(shape[0]) % shape[1]]


def _binary(shape):
    return np.random.default_rng(1).integers(2, size=shape).astype(np.float32)


def _uneven(x):
    del x
    return np.linspace(0.2, 2.0, models.ROWS).astype(np.float32)


def _steps(x):
    """The weight by which an example's mean over its valid steps counts as in Keras."""
    valid = (x > 0).sum(1)
    return (valid / valid.mean()).astype(np.float32)


def _own_loss(y, predictions):
    return keras.backend.mean(keras.backend.abs(y - predictions), axis=-1)


def _one_number(y, predictions):
    return keras.backend.mean(keras.backend.abs(y - predictions))


_TWO = lambda: [CE(from_logits=True), "mse"]  # noqa: E731
_NAMED = lambda: {"kind": CE(from_logits=True), "size": "mse"}  # noqa: E731
_OF_TWO = lambda: [["accuracy"], ["mae"]]  # noqa: E731
_OF_NAMED = lambda: {"kind": ["accuracy"], "size": ["mae"]}  # noqa: E731
_PIXEL_METRICS = lambda: [  # noqa: E731
    "accuracy",
    keras.metrics.Precision(),
    keras.metrics.AUC(num_thresholds=20),
    keras.metrics.TruePositives(),
    keras.metrics.BinaryIoU([1], threshold=0.5),
]

CASES = [
    Case("mlp", models.mlp),
    Case("mlp-weights", models.mlp, weights=_uneven, weighted_metrics=lambda: ["accuracy"]),
    Case("cnn", models.cnn),
    Case("pixels", models.pixels, lambda: "binary_crossentropy", metrics=_PIXEL_METRICS),
    Case("masks-of-one-length", models.masked_lstm),
    Case(
        "masks-of-words",
        lambda: models.masked_lstm((1, 4, 5), recurrent=False),
        weights=_steps,
        keras_weights=False,
        quick=True,
    ),
    Case("masks", lambda: models.masked_lstm((1, 4, 5)), weights=_steps, keras_weights=False),
    Case(
        "ignored-class",
        lambda: _ignoring(models.mlp()),
        lambda: CE(from_logits=True, ignore_class=-1),
        metrics=lambda: None,
        weights=lambda x: (np.full(len(x), 1 / (1 - 1 / 3))).astype(np.float32),
        keras_weights=False,
    ),
    Case(
        "ignored-class-of-words",
        lambda: _words_ignored(),
        lambda: CE(from_logits=True, ignore_class=-1),
        metrics=lambda: None,
    ),
    Case("two-outputs", models.two_of_each, _TWO, _OF_TWO, quick=True, loss_weights=[0.5, 2.0]),
    Case("two-outputs-weights", models.two_of_each, _TWO, _OF_TWO, weights=_uneven),
    Case("dicts", models.dicts, _NAMED, _OF_NAMED, loss_weights={"kind": 0.5, "size": 2.0}),
    Case("subclassed", models.subclassed),
    Case("nested", models.nested),
    Case("one-lot", models.mlp, physical=None),
    Case("f1", lambda: models.mlp(3, _one_hot), lambda: "mse", lambda: [keras.metrics.F1Score()]),
    Case("one-number", lambda: models.mlp(3, _one_hot), lambda: "mse", lambda: [_one_number]),
]

for _loss in ("mse", "mae", "huber", "log_cosh", "mean_squared_logarithmic_error", _own_loss):
    _name = _loss if isinstance(_loss, str) else "function"
    _model = lambda: models.mlp(3, _one_hot)  # noqa: E731
    CASES.append(Case(f"loss-{_name}", _model, lambda _l=_loss: _l, lambda: ["mae"]))
for _kind in ("BinaryCrossentropy", "CategoricalCrossentropy", "BinaryFocalCrossentropy"):
    _targets = _one_hot if _kind.startswith("Cat") else _binary
    CASES.append(
        Case(
            f"loss-{_kind}",
            lambda _t=_targets: models.mlp(3, _t),
            lambda _k=_kind: getattr(keras.losses, _k)(from_logits=True),
            weights=_uneven,
        )
    )
for _kind in ("Adam", "AdamW", "RMSprop", "Adagrad", "Adamax", "Ftrl", "Adadelta", "Lion"):
    CASES.append(
        Case(
            f"optimizer-{_kind}",
            models.mlp,
            optimizer=lambda _k=_kind: getattr(keras.optimizers, _k)(0.01),
        )
    )


def _words_ignored():
    """Masked words, one of each three valid ones of a class that the loss ignores."""
    model, x, y = models.masked_lstm()
    y = y.copy()
    y[np.arange(len(y)), np.arange(len(y)) % 3] = -1
    return model, x, y


def _ignoring(made):
    """Every third target is of the class that the loss ignores."""
    model, x, y = made
    y = y.copy()
    y[::3] = -1
    return model, x, y
