"""What takes the place of a layer when a model is converted: a converter for each type of layer."""

from collections.abc import Callable
from typing import NamedTuple

from tensorflow import keras

_CONVERTERS = {}


class Settings(NamedTuple):
    """How a model is converted.

    Attributes:
        batch_norm: One of `tfdpnorm.choices.BATCH_NORMS`.
        groups: Desired number of groups, for "group".
    """

    batch_norm: str
    groups: int = 32


class Replacement(NamedTuple):
    """What takes the place of a layer.

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


def register_converter(*layer_types):
    """Decorator that registers the converter of layer types.

    A converter is a function from a built layer and `Settings` to a `Replacement`, or to None for
    a layer that stays as it is; where it cannot convert, it raises `CannotConvertError`. It holds
    for exactly these types: a subclass may override `call`, and needs a converter of its own. The
    one registered last is taken.

    Args:
        *layer_types: Keras layer classes.

    Example:
        A normalisation of somebody's own that tracks averages of the batch::

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
