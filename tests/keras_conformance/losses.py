"""Cases of the conformance table: losses, and metrics that are functions or look at whole rows."""

import numpy as np
from tensorflow import keras

from tests.keras_conformance import models
from tests.keras_conformance.case import CE, Case
from tests.keras_conformance.weights import uneven


def _one_hot(shape):
    return np.eye(shape[1], dtype=np.float32)[np.arange(shape[0]) % shape[1]]


def _binary(shape):
    return np.random.default_rng(1).integers(2, size=shape).astype(np.float32)


def _positive(shape):
    return 1 + _binary(shape)


def _own_loss(y, predictions):
    return keras.backend.mean(keras.backend.abs(y - predictions), axis=-1)


def _one_number(y, predictions):
    return keras.backend.mean(keras.backend.abs(y - predictions))


class _OwnLoss(keras.losses.Loss):
    def call(self, y, predictions):
        return keras.backend.mean(keras.backend.square(y - predictions), axis=-1)


def _mlp(targets=_one_hot):
    return lambda: models.mlp(3, targets)


def _words_ignored():
    """Masked words, one of each three valid ones of a class that the loss ignores."""
    model, x, y = models.masked_lstm()
    y = y.copy()
    y[np.arange(len(y)), np.arange(len(y)) % 3] = -1
    return model, x, y


def _ignoring():
    """Every third target is of the class that the loss ignores."""
    model, x, y = models.mlp()
    y = y.copy()
    y[::3] = -1
    return model, x, y


def _ignores():
    return CE(from_logits=True, ignore_class=-1)


def _as_the_others(x):
    return np.full(len(x), 1 / (1 - 1 / 3)).astype(np.float32)


_NO_METRICS = {"metrics": lambda: None}

LOSSES = [
    Case(
        "ignored class, with weights",
        _ignoring,
        _ignores,
        **_NO_METRICS,
        weights=_as_the_others,
        keras_weights=False,
    ),
    Case("ignored class of words", _words_ignored, _ignores, **_NO_METRICS),
    Case("metric F1Score", _mlp(), lambda: "mse", lambda: [keras.metrics.F1Score()]),
    Case("metric that is a function to one number", _mlp(), lambda: "mse", lambda: [_one_number]),
]
_OF_NUMBERS = (
    "mse",
    "mae",
    "huber",
    "log_cosh",
    "mean_squared_logarithmic_error",
    "cosine_similarity",
    "poisson",
    "categorical_hinge",
    "kl_divergence",
)
LOSSES += [Case(name, _mlp(), lambda _loss=name: _loss, lambda: ["mae"]) for name in _OF_NUMBERS]
LOSSES += [
    # Of targets of 0 its gradients are beyond what is meant by no clip. At a higher rate the loss
    # grows, and rounding with it.
    Case(
        "mean_absolute_percentage_error",
        _mlp(_positive),
        lambda: "mean_absolute_percentage_error",
        lambda: ["mae"],
        optimizer=lambda: keras.optimizers.SGD(1e-3),
    )
]
# They read the labels 0 as -1 if all labels of the batch are 0 or 1; here they are.
LOSSES += [
    Case(name, _mlp(), lambda _loss=name: _loss, engine="per_example")
    for name in ("hinge", "squared_hinge")
]
LOSSES += [
    Case("function of one's own", _mlp(), lambda: _own_loss),
    Case("subclass of Loss", _mlp(), _OwnLoss),
    Case(
        "function to one number",
        _mlp(),
        lambda: _one_number,
        refused="not one value per example",
    ),
]
for _kind in ("Binary", "Categorical", "BinaryFocal", "CategoricalFocal"):
    _loss = f"{_kind}Crossentropy"
    LOSSES.append(
        Case(
            f"{_loss} of logits",
            _mlp(_one_hot if _kind.startswith("Cat") else _binary),
            lambda _l=_loss: getattr(keras.losses, _l)(from_logits=True),
            weights=uneven,
        )
    )
