"""Cases of the conformance table: all optimizers of Keras, without weights and with."""

from tensorflow import keras

from tests.keras_conformance import models
from tests.keras_conformance.case import Case
from tests.keras_conformance.weights import uneven
from tfdpnorm.keras_compat.variables import KERAS_3

O = keras.optimizers  # noqa: E741

_RATE = 0.01
_OPTIMIZERS = {
    name: lambda name=name: getattr(O, name)(_RATE)
    for name in (
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "AdamW",
        "Adamax",
        "Ftrl",
        "Lion",
        "RMSprop",
        "SGD",
    )
} | {
    "SGD, Nesterov's momentum": lambda: O.SGD(_RATE, 0.9, nesterov=True),
    "SGD, clipnorm": lambda: O.SGD(_RATE, clipnorm=0.1),
    "SGD, global_clipnorm": lambda: O.SGD(_RATE, global_clipnorm=0.1),
    "SGD, averaged weights": lambda: O.SGD(_RATE, use_ema=True, ema_momentum=0.5),
    "SGD, weight decay": lambda: O.SGD(_RATE, weight_decay=0.1),
    "Adam, amsgrad": lambda: O.Adam(_RATE, amsgrad=True),
    "Adam, decaying rate": lambda: O.Adam(O.schedules.ExponentialDecay(_RATE, 2, 0.5)),
}
_OPTIMIZERS |= (
    {
        "Lamb": lambda: O.Lamb(_RATE),
        "Muon": lambda: O.Muon(_RATE),
        "Adam, gradient_accumulation_steps": lambda: O.Adam(_RATE, gradient_accumulation_steps=2),
    }
    if KERAS_3
    else {
        "legacy Adam": lambda: O.legacy.Adam(_RATE),
        "legacy SGD": lambda: O.legacy.SGD(_RATE, 0.9),
    }
)
_OF_SCALE = O if KERAS_3 else keras.mixed_precision
_CLASSES = {0: 0.5, 1: 1.0, 2: 3.0}

OPTIMIZERS = [
    Case(name + suffix, models.mlp, optimizer=make, **weights)
    for name, make in _OPTIMIZERS.items()
    for suffix, weights in (
        ("", {}),
        (", sample weights", {"weights": uneven}),
        (", class weights", {"class_weight": _CLASSES}),
    )
]
OPTIMIZERS.append(
    Case(
        "Nadam",
        models.mlp,
        optimizer=lambda: O.Nadam(_RATE),
        differs=None
        if KERAS_3
        else "Keras 2.15's has a bug in graph mode, in both libraries (see docs/limits.md)",
    )
)
OPTIMIZERS.append(
    Case(
        "LossScaleOptimizer",
        models.mlp,
        optimizer=lambda: _OF_SCALE.LossScaleOptimizer(O.SGD(_RATE)),
        refused="LossScaleOptimizer",
    )
)
if KERAS_3:
    OPTIMIZERS.append(
        Case(
            "SGD, loss_scale_factor",
            models.mlp,
            optimizer=lambda: O.SGD(_RATE, loss_scale_factor=8.0),
            refused="loss_scale_factor",
        )
    )
