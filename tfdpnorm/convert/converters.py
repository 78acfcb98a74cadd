"""Replacements of layers when a model is converted: a converter for each type of layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from tensorflow import keras

from tfdpnorm.dtypes import at_least_float32
from tfdpnorm.keras_compat.layers import ALL_BATCH_NORMALIZATIONS, axes_of, is_called_with_a_mask
from tfdpnorm.layers import FrozenBatchNormalization, PublicBatchNormalization

_CONVERTERS = {}


class Settings(NamedTuple):
    """How a model is converted.

    Attributes:
        batch_norm: One of `tfdpnorm.choices.BATCH_NORMS`.
        groups: Desired number of groups, for "group"; None for 32, with 4 channels or more in each.
    """

    batch_norm: str
    groups: int | None = None

    def groups_of(self, channels: int) -> int:
        """Returns how many groups so many channels have: a divisor of their number."""
        if self.groups is not None:
            return math.gcd(self.groups, channels)
        # A channel that is a group of its own loses how strong it is in the example.
        return math.gcd(32, channels, max(1, channels // 4))


class Replacement(NamedTuple):
    """The replacement of a layer.

    Attributes:
        layer: The new layer, not built, of the name of the old one.
        carry: Function of no arguments, called when the new layer is built, that gives it its
            weights; None for nothing to carry over.
        carried: What is carried over, in words.
        lost: What is not, and why, in words; "" for nothing.
    """

    layer: keras.layers.Layer
    carry: Callable | None = None
    carried: str = ""
    lost: str = ""


class CannotConvertError(ValueError):
    """A layer that a converter is for, but cannot convert as it is; the message says why."""


def register_converter(*layer_types: type) -> Callable[[Callable], Callable]:
    """Decorator that registers the converter of layer types.

    A converter is a function from a built layer and `Settings` to a `Replacement`, or to None for
    a layer that stays as it is; where it cannot convert, it raises `CannotConvertError`. It holds
    for exactly these types: a subclass may override `call`, and needs a converter of its own. The
    one registered last is taken.

    Args:
        *layer_types: Keras layer classes.

    Returns:
        A decorator that returns the function unchanged.

    Example:
        A custom normalisation that tracks averages of the batch::

            from tensorflow import keras

            from tfdpnorm.convert import Replacement, register_converter


            class Tracking(keras.layers.BatchNormalization):
                def call(self, inputs, training=None):
                    return 2.0 * super().call(inputs, training=training)


            @register_converter(Tracking)
            def convert_tracking(layer, settings):
                new = keras.layers.LayerNormalization(name=layer.name)

                def carry():
                    new.set_weights([2.0 * layer.gamma.numpy(), 2.0 * layer.beta.numpy()])

                return Replacement(new, carry, carried="gamma, beta", lost="the averages")
    """

    def add(converter):
        for layer_type in layer_types:
            _CONVERTERS[layer_type] = converter
        return converter

    return add


def converter_for(layer):
    """Returns the converter for exactly this type of layer, or None."""
    return _CONVERTERS.get(type(layer))


# --- batch normalisation ---


@register_converter(*ALL_BATCH_NORMALIZATIONS)
def convert_batch_normalization(layer, settings):
    """Returns the `Replacement` of a batch normalisation, or None for one that is frozen already.

    It is built, and of Keras' own classes, synchronised or renormalised ones included. Raises
    CannotConvertError for normalisation over several axes, outputs that would be constant, and
    groups of inputs with a mask.
    """
    if not layer.trainable:
        return None
    if not layer.built:
        raise CannotConvertError("it has no weights yet: call the model on a batch first")
    axis, *others = axes_of(layer)
    if others:
        raise CannotConvertError(f"it normalises over several axes, {axes_of(layer)}")
    return _CONVERSIONS[settings.batch_norm](layer, axis, settings)


@register_converter(keras.layers.Normalization)
def convert_normalization(layer, settings):
    """Returns the `Replacement` of a layer that `adapt()` fitted: the same with constants."""
    del settings
    if layer.input_mean is not None or not layer.built or layer.invert:
        return None
    mean, variance = layer.adapt_mean.numpy(), layer.adapt_variance.numpy()
    if not mean.any() and (variance == 1).all():
        return None  # as it was made
    new = keras.layers.Normalization(
        axis=axes_of(layer) or None,
        mean=mean.tolist(),
        variance=variance.tolist(),
        name=layer.name,
        dtype=layer.dtype_policy,
    )
    return Replacement(new, carried="mean, variance, as constants that are assumed to be public")


def _public(layer, axis, settings):
    del settings
    new = PublicBatchNormalization(
        axis=axis,
        epsilon=layer.epsilon,
        center=layer.center,
        scale=layer.scale,
        name=layer.name,
        dtype=layer.dtype_policy,
    )

    def carry():
        if layer.scale:
            new.gamma.assign(layer.gamma)
        if layer.center:
            new.beta.assign(layer.beta)
        # One row: how many rows averages come from is not known, and only "blend" would use it.
        new.store_moments(layer.moving_mean, layer.moving_variance, 1)

    kept = _names(layer)
    return Replacement(new, carry, f"{kept}moving averages, as the moments before any public rows")


OF_NEW_LAYER = "0 and 1 as in a new layer, so that it normalises nothing"


def frozen(layer):
    """Returns the `Replacement` of a built batch normalisation by its moving averages."""
    axes = axes_of(layer)
    new = FrozenBatchNormalization(
        axis=axes if len(axes) > 1 else axes[0],
        momentum=layer.momentum,
        epsilon=layer.epsilon,
        center=layer.center,
        scale=layer.scale,
        beta_regularizer=layer.beta_regularizer,
        gamma_regularizer=layer.gamma_regularizer,
        beta_constraint=layer.beta_constraint,
        gamma_constraint=layer.gamma_constraint,
        name=layer.name,
        dtype=layer.dtype_policy,
    )

    def carry():
        own = [layer.gamma if layer.scale else None, layer.beta if layer.center else None]
        own += [layer.moving_mean, layer.moving_variance]  # and none of renormalisation
        new.set_weights([w.numpy() for w in own if w is not None])

    constants = "as constants"
    if not (np.any(layer.moving_mean.numpy()) or np.any(layer.moving_variance.numpy() != 1)):
        constants = OF_NEW_LAYER
    return Replacement(new, carry, f"{_names(layer)}moving averages, {constants}")


def _grouped(layer, axis, settings):
    shape = _shape(layer)
    channels = shape[axis]
    groups = settings.groups_of(channels)
    if len(shape) == 2 and groups == channels:  # one unit each
        groups = next((n for n in range(groups // 2, 0, -1) if groups % n == 0), groups)
    _check_not_constant(channels, groups, len(shape))
    return _by_example(layer, groups, _group_normalization(layer, axis, groups))


def _layered(layer, axis, settings):
    del settings
    rank = len(_shape(layer))
    _check_not_constant(_shape(layer)[axis], 1, rank)
    if rank > 3:
        # All units of an example, with one gamma and beta for a channel.
        return _by_example(layer, 1, _group_normalization(layer, axis, 1))
    # The units of a position: padding of sequences stays out of the others' moments.
    new = keras.layers.LayerNormalization(
        axis=axis, epsilon=layer.epsilon, name=layer.name, dtype=layer.dtype_policy
    )
    return _by_example(layer, 1, new)


def _group_normalization(layer, axis, groups):
    if is_called_with_a_mask(layer):
        raise CannotConvertError(
            "its inputs carry a mask, which Keras' GroupNormalization does not take "
            '(batch_norm="layer" is for sequences)'
        )
    # float32: under a half-precision policy Keras would take the moments of groups in that.
    wide = at_least_float32(layer.compute_dtype).name
    return keras.layers.GroupNormalization(
        groups=groups, axis=axis, epsilon=layer.epsilon, name=layer.name, dtype=wide
    )


def _by_example(layer, groups, new):
    """The `Replacement` by a layer that takes its moments over groups of an example's channels.

    With the averages mu_c and v_c of the channels of a group, an example that is like the average
    has the group's mean m = E[mu_c] and variance V = E[v_c + mu_c^2] - m^2. With

        gamma' = gamma sqrt(V + eps) / sqrt(v_c + eps)
        beta' = beta + gamma (m - mu_c) / sqrt(v_c + eps)

    the output for such an example is that of the batch normalisation.
    """

    def carry():
        mean, variance = (
            np.asarray(w, np.float64) for w in (layer.moving_mean, layer.moving_variance)
        )
        gamma = np.asarray(layer.gamma, np.float64) if layer.scale else np.ones_like(mean)
        beta = np.asarray(layer.beta, np.float64) if layer.center else np.zeros_like(mean)
        by_group = (groups, -1)
        of_group = mean.reshape(by_group).mean(axis=1)
        square = (variance + mean**2).reshape(by_group).mean(axis=1)
        members = mean.size // groups
        group_mean = np.repeat(of_group, members)
        group_variance = np.repeat(np.maximum(square - of_group**2, 0.0), members)
        slope = gamma / np.sqrt(variance + layer.epsilon)
        new.gamma.assign(slope * np.sqrt(group_variance + layer.epsilon))
        new.beta.assign(beta + slope * (group_mean - mean))

    lost = "moving averages: an example's own moments replace them"
    return Replacement(new, carry, "gamma and beta, with the moving averages folded in", lost)


def _check_not_constant(channels, groups, rank):
    if rank == 2 and groups == channels:
        raise CannotConvertError(
            f"its {channels} units in {groups} groups would be one per group, and the output "
            "constant"
        )


def _shape(layer):
    """The shape that a built layer takes, with None where it takes any size."""
    rank = layer.input_spec.ndim
    shape = [None] * rank
    for axis, size in layer.input_spec.axes.items():
        shape[axis % rank] = size
    return shape


def _names(layer):
    names = [name for name, there in (("gamma", layer.scale), ("beta", layer.center)) if there]
    return "".join(f"{name}, " for name in names)


_CONVERSIONS = {
    "public_batch": _public,
    "frozen": lambda layer, axis, settings: frozen(layer),
    "group": _grouped,
    "layer": _layered,
}
