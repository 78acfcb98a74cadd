"""Advice: settings that the guarantee allows, and that hardly train. One warning names them all."""

import math
import numbers
import warnings

from tensorflow import keras

from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.keras_compat.models import layers_of_outputs, sublayers
from tfdpnorm.training.suggested_rate import (
    MOMENTUM,
    OPTIMIZERS,
    noise_is_negligible,
    suggested_rate,
)

_FAR = 10.0  # times the suggested rate, or a part of it
_LEAST_NOISE = 0.65  # noise multiplier at which the noise counts twice as much as in large batches


def warn_of_ineffective(model, plan, optimizer, loss, stacklevel):
    """Warns once of settings that keep a private training from learning, from public numbers.

    `loss` is a Keras loss, or a structure of them.
    """
    if noise_is_negligible(model, plan) or math.isinf(plan.l2_norm_clip):
        return
    found = [
        confused_with_logits(model, loss),
        _of_lots(plan),
        _of_dropout(model),
        _of_rate(model, plan, optimizer),
    ]
    found = [sentence for sentence in found if sentence]
    if found:
        warnings.warn(
            "\n- ".join(("These settings do not affect privacy, but may train badly:", *found)),
            PrivacyWarning,
            stacklevel=stacklevel + 1,
        )


def _of_lots(plan):
    if plan.noise_multiplier >= _LEAST_NOISE or plan.epsilon_target is None:
        return None
    return (
        f"Batches of {plan.expected_batch_size:g} are small: they need a noise multiplier of "
        f"{plan.noise_multiplier:.2g}, and batches twice as large need little more, for half the "
        "noise in the mean. Raise expected_batch_size; where the library chose the plan, raise "
        "epochs. tfdpnorm.suggest(model, budget=..., num_examples=...) suggests a size."
    )


def _of_dropout(model):
    rates = {
        layer.name: layer.rate
        for layer in sublayers(model)
        if isinstance(layer, (keras.layers.Dropout, keras.layers.GaussianDropout)) and layer.rate
    }
    if not rates:
        return None
    names = ", ".join(f"{name} ({rate:g})" for name, rate in list(rates.items())[:3])
    return f"Dropout, {names}, adds noise to gradients that are noisy already: remove the layer."


def _of_rate(model, plan, optimizer):
    name = type(optimizer).__name__.lower()
    settings = optimizer.get_config()
    rate = settings.get("learning_rate")
    if isinstance(rate, dict):  # A schedule.
        rate = rate.get("config", {}).get("initial_learning_rate")
    if name not in OPTIMIZERS or not isinstance(rate, numbers.Real) or not model.built:
        return None
    try:
        usual = suggested_rate(model, plan, name)
    except ValueError:  # Nothing to train that has a usual size.
        return None
    if name == "sgd":  # Of another momentum.
        usual *= (1 - settings["momentum"]) / (1 - MOMENTUM)
    if usual / _FAR <= rate <= usual * _FAR:
        return None
    than = "small" if rate < usual else "large"
    return (
        f"A learning rate of {rate:.3g} is {than} for {name}: {usual:.2g} suits this noise, as in "
        f'compile(tfdpnorm.suggested_optimizer(private, "{name}"), ...).'
    )


# --- losses that take logits for probabilities, or the other way round ---

_FUNCTIONS = (
    keras.losses.sparse_categorical_crossentropy,
    keras.losses.categorical_crossentropy,
    keras.losses.binary_crossentropy,
)
_CLASSES = (
    keras.losses.SparseCategoricalCrossentropy,
    keras.losses.CategoricalCrossentropy,
    keras.losses.BinaryCrossentropy,
)
_PROBABILITIES = (keras.activations.softmax, keras.activations.sigmoid)


def confused_with_logits(model, loss):
    """Returns a sentence on an output that the loss takes for what it is not, or None.

    Keras computes with either, and hardly learns. Only what is certain is said: of one
    cross-entropy of Keras' own, and of a functional model with one output, whose last layer has an
    activation.
    """
    layers = layers_of_outputs(model)
    if len(layers) != 1 or isinstance(loss, (list, tuple, dict)):
        return None
    (layer,) = layers
    loss, gives = keras.losses.get(loss), _gives_logits(layer)
    if type(loss) in _CLASSES:
        takes = bool(loss.get_config().get("from_logits", False))
    elif loss in _FUNCTIONS:
        takes = False
    else:
        return None
    if gives is None or takes == gives:
        return None
    if gives:
        cls = dict(zip(_FUNCTIONS, _CLASSES, strict=True)).get(loss, type(loss))
        return (
            f"The loss expects probabilities, and {layer.name!r}, the last layer, gives logits: "
            f"pass the loss as keras.losses.{cls.__name__}(from_logits=True)."
        )
    return (
        f"The loss expects logits, and {layer.name!r}, the last layer, gives probabilities: remove "
        "its activation, or from_logits=True from the loss."
    )


def _gives_logits(layer):
    """Whether a layer gives logits and no probabilities; None where that cannot be said."""
    if isinstance(layer, keras.layers.Softmax):
        return False
    activation = getattr(layer, "activation", None)
    if activation in _PROBABILITIES:
        return False
    plain = isinstance(layer, (keras.layers.Dense, keras.layers.Conv1D, keras.layers.Conv2D))
    return True if plain and activation is keras.activations.linear else None
