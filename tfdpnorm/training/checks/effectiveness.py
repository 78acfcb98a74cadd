"""Settings that the guarantee allows, and that hardly train: one warning names them all."""

import math
import numbers
import warnings

from tensorflow import keras

from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.training.checks.logits import confused_with_logits
from tfdpnorm.training.suggested_rate import MOMENTUM, OPTIMIZERS, suggested_rate

_FAR = 10.0  # times the suggested rate, or a part of it
_USUAL_CLIP = 1.0
_LARGE_CLIP = 2.0  # times the usual norm of gradients, which then are hardly ever clipped
_LEAST_NOISE = 0.65  # noise multiplier at which the noise counts twice as much as in large batches


def warn_of_ineffective(model, plan, optimizer, loss, gradient_norm, stacklevel):
    """Warns once of settings that keep a private training from learning, from public numbers.

    `loss` is a Keras loss, or a structure of them. `gradient_norm()` is the usual norm of the
    gradient of an example, or None where it is not known; it is only called for clipping norms
    above that of the suggestions, 1.
    """
    if not plan.noise_multiplier or math.isinf(plan.l2_norm_clip):
        return
    found = [
        confused_with_logits(model, loss),
        _of_lots(plan),
        _of_dropout(model),
        _of_rate(model, plan, optimizer),
        _of_clipping(plan, gradient_norm),
    ]
    found = [sentence for sentence in found if sentence]
    if found:
        warnings.warn(
            "These settings do not affect privacy, but may train badly: " + " ".join(found),
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


def _of_clipping(plan, gradient_norm):
    clip = plan.l2_norm_clip
    norm = gradient_norm() if clip > _USUAL_CLIP else None
    if norm is None or clip <= _LARGE_CLIP * norm:
        return None
    return (
        f"A clipping norm of {clip:g} is above the gradients of the public rows, whose norms are "
        f"about {norm:.2g}, and the noise is proportional to it: lower it."
    )
