"""Advice: settings that the guarantee allows, and that hardly train. One warning names them all."""

import math
import numbers
import warnings

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.keras_compat.models import layers_of_outputs, sublayers
from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.layers.pulled_back_noise import squared_norm
from tfdpnorm.training.suggested_rate import (
    MOMENTUM,
    OPTIMIZERS,
    noise_is_negligible,
    suggested_rate,
)

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
    if noise_is_negligible(model, plan) or math.isinf(plan.l2_norm_clip):
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


def _of_clipping(plan, gradient_norm):
    clip = plan.l2_norm_clip
    norm = gradient_norm() if clip > _USUAL_CLIP else None
    if norm is None or clip <= _LARGE_CLIP * norm:
        return None
    return (
        f"A clipping norm of {clip:g} is above the gradients of the public rows, whose norms are "
        f"about {norm:.2g}, and the noise is proportional to it: lower it."
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
    takes, gives = _takes_logits(keras.losses.get(loss)), _gives_logits(layer)
    if takes is None or gives is None or takes == gives:
        return None
    if gives:
        loss = keras.losses.get(loss)
        cls = dict(zip(_FUNCTIONS, _CLASSES, strict=True)).get(loss, type(loss))
        return (
            f"The loss expects probabilities, and {layer.name!r}, the last layer, gives logits: "
            f"pass the loss as keras.losses.{cls.__name__}(from_logits=True)."
        )
    return (
        f"The loss expects logits, and {layer.name!r}, the last layer, gives probabilities: remove "
        "its activation, or from_logits=True from the loss."
    )


def _takes_logits(loss):
    """Whether a loss takes logits; None if it is no cross-entropy of Keras' own."""
    if type(loss) in _CLASSES:
        return bool(loss.get_config().get("from_logits", False))
    return False if loss in _FUNCTIONS else None


def _gives_logits(layer):
    """Whether a layer gives logits and no probabilities; None where that cannot be said."""
    if isinstance(layer, keras.layers.Softmax):
        return False
    activation = getattr(layer, "activation", None)
    if activation in _PROBABILITIES:
        return False
    plain = isinstance(layer, (keras.layers.Dense, keras.layers.Conv1D, keras.layers.Conv2D))
    return True if plain and activation is keras.activations.linear else None


# --- how large the gradient of an example usually is ---

_ROWS = 64
_DRAWS = 8


def usual_gradient_norm(streams, loss, per_example_loss):
    """Returns the root mean square of the norms of public rows' gradients, at the present weights.

    With random signs the square of a summed gradient is, in the mean, the sum of the squares.
    `loss` is what `compile` got, `per_example_loss` its `PerExampleLoss`.

    Returns None for a model without public rows or not yet built, with several outputs, or with
    another loss than the cross-entropy of one label, whose labels cannot be guessed.
    """
    name = loss if isinstance(loss, str) else getattr(loss, "name", None)
    if streams.mode != "public" or not streams.model.built or name not in _LABELS:
        return None
    rows = tf.nest.map_structure(lambda part: part[:_ROWS], streams.public_batch)
    variables, rng = trainable_variables(streams.model), np.random.default_rng(0)
    weights = streams.clip_weights(variables) or [1.0] * len(variables)
    statistics = streams.public_pass(training=False)
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(variables)
        outputs = streams.forward(rows, statistics, training=False)
        if not tf.is_tensor(outputs) or outputs.shape.rank != 2:
            return None
        count, classes = outputs.shape
        labels = _LABELS[name](rng.integers(classes, size=count), classes)
        losses = per_example_loss(labels, outputs)
    total = 0.0
    for _ in range(_DRAWS):
        signs = tf.constant(rng.choice([-1, 1], count), losses.dtype)
        gradients = tape.gradient(losses, variables, signs, unconnected_gradients="zero")
        total += sum(w**2 * squared_norm(g) for w, g in zip(weights, gradients, strict=True))
    return math.sqrt(total / (_DRAWS * count))


_LABELS = {
    "sparse_categorical_crossentropy": lambda labels, classes: tf.constant(labels, tf.int32),
    "categorical_crossentropy": tf.one_hot,
}
