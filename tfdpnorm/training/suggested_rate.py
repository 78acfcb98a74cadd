"""The learning rate that a plan and the sizes of a model's weights suggest.

Noise is what limits the rate of DP-SGD: over the T updates it moves the weights, in a random
direction, by a distance that grows with the rate. What that does depends on the norm of the
kernels, since what is normalised after a kernel depends on the kernel's direction alone. So the
rate is the one at which the noise moves the weights by twice the norm that kernels usually have
when they are initialised. docs/settings.md has the figures that this comes from.

Without noise no distance is too far; then gradients limit the rate. With the ratio of signal to
noise of the whole training

    S = sqrt(T) B / (z sqrt(d)),    B the expected batch size, d the number of trained weights,

normalised gradients of one direction move the weights 0.8 S times as far as noise does. The rate
grows with S up to S = 200.

In a network without normalisation the vectors of an embedding, small at first, have to grow before
the other layers see them, and noise in a vector is not noise in all texts. There the distance is
that of all weights but embeddings.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from tensorflow import keras

from tfdpnorm import arguments
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.layers.weight_noise import NORMALIZATIONS

if TYPE_CHECKING:
    from tfdpnorm.privacy.plan import PrivacyPlan


MOMENTUM = 0.9
_BY_NOISE = 2.0  # how far the noise moves the weights, in norms of the kernels
_LARGEST_SIGNAL = 200.0
_NEGLIGIBLE = 10 * _LARGEST_SIGNAL
_RMS = math.sqrt(3 / 8)  # of a cosine schedule, over its steps

# Optimizers whose update has about the size of the rate in each coordinate, whatever the gradients.
_OF_UNIT_STEPS = ("adam", "adamw", "rmsprop")
OPTIMIZERS = ("sgd", *_OF_UNIT_STEPS)


def suggested_rate(model: keras.Model, plan: PrivacyPlan, optimizer: str = "sgd") -> float:
    """Computes the rate that a cosine schedule begins with, for an optimizer of `OPTIMIZERS`.

    It follows from the plan and the shapes of the weights: nothing private, and not what the
    weights are, so that a run that is resumed has the same. "sgd" has momentum 0.9. Raises
    ValueError for another optimizer, a model with no kernel to train, or no clipping norm.
    """
    arguments.choice("optimizer", optimizer, OPTIMIZERS)
    if math.isinf(plan.l2_norm_clip):
        raise ValueError(
            "Expected a plan with a finite l2_norm_clip, got inf: without clipping the rate "
            "depends on the gradients. Choose an optimizer with its rate."
        )
    # The shapes of the weights whose distance limits the rate.
    variables, layers = trainable_variables(model), sublayers(model)
    if not any(isinstance(layer, NORMALIZATIONS) for layer in layers):
        tables = [layer for layer in layers if isinstance(layer, keras.layers.Embedding)]
        left_out = {id(v) for layer in tables for v in trainable_variables(layer)}
        variables = [v for v in variables if id(v) not in left_out] or variables
    shapes = [tuple(variable.shape) for variable in variables]
    numbers = _count(shapes)
    norm = math.sqrt(sum(_usual_squared_norm(shape) for shape in shapes))
    if not norm:
        raise ValueError(
            "The model has no kernels to train, or is not built. Build it, or choose an optimizer "
            "with its rate."
        )
    signal = _signal_to_noise(numbers, plan)
    moved = _BY_NOISE * norm
    if optimizer == "sgd":
        # A step of noise has the length rate * C / (1 - m) * z sqrt(d) / B, or sqrt(T) / S of it.
        step = plan.l2_norm_clip * math.sqrt(plan.steps) / signal / (1 - MOMENTUM)
        return moved / (_RMS * math.sqrt(plan.steps) * step)
    # A step is as long as sqrt(d) numbers of the size of the rate.
    return moved / (_RMS * math.sqrt(plan.steps * numbers))


def suggested_optimizer(private: keras.Model, name: str = "sgd") -> keras.optimizers.Optimizer:
    """Makes an optimizer with the rate that suits the plan and the model.

    Args:
        private: A `PrivateModel` whose model is built.
        name: "sgd", with momentum 0.9; or "adam", "adamw" or "rmsprop".

    Returns:
        A new Keras optimizer, with a cosine schedule over the updates of the plan.

    Raises:
        ValueError: as `suggested_rate` does.

    Example::

        private = tfdpnorm.make_private(model, plan, public_batch=public_rows)
        private.compile(tfdpnorm.suggested_optimizer(private), "sparse_categorical_crossentropy")
    """
    return optimizer_at(suggested_rate(private.model, private.plan, name), private.plan.steps, name)


def optimizer_at(rate, steps, name):
    """Makes the optimizer of a name, with a cosine schedule from a rate to 0 over the updates."""
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
    if name == "sgd":
        return keras.optimizers.SGD(schedule, momentum=MOMENTUM)
    kinds = (keras.optimizers.Adam, keras.optimizers.AdamW, keras.optimizers.RMSprop)
    return dict(zip(_OF_UNIT_STEPS, kinds, strict=True))[name](schedule)


def signal_to_noise(model: keras.Model, plan: PrivacyPlan) -> float:
    """S of a training by a plan, which says how far signal moves the weights compared with noise.

    At most 200, where the noise does not count any more; a model that is not built has that.
    """
    shapes = [tuple(v.shape) for v in trainable_variables(model)] if model.built else []
    return _signal_to_noise(_count(shapes), plan)


def noise_is_negligible(model: keras.Model, plan: PrivacyPlan) -> bool:
    """Whether S is ten times what makes the noise count no more, and more: advice is pointless."""
    shapes = [tuple(v.shape) for v in trainable_variables(model)] if model.built else [(1,)]
    return _signal_to_noise(_count(shapes), plan, _NEGLIGIBLE) >= _NEGLIGIBLE


def _signal_to_noise(numbers, plan, largest=_LARGEST_SIGNAL):
    """S for so many trained weights, at most `largest`."""
    noise = plan.gradient_noise_multiplier * math.sqrt(numbers)
    signal = math.sqrt(plan.steps) * plan.expected_batch_size
    return largest if noise * largest <= signal else signal / noise


def _count(shapes):
    return sum(int(np.prod(shape)) for shape in shapes)


def _usual_squared_norm(shape):
    """The squared norm that the initialisation of Glorot & Bengio (2010) gives to a kernel."""
    if len(shape) < 2:
        return 0.0
    field = int(np.prod(shape[:-2]))
    return int(np.prod(shape)) * 2 / (field * (shape[-2] + shape[-1]))
