"""The exchange of the layers of a model, and of the models nested in it."""

from tensorflow import keras

from tfdpnorm.convert.converters import CannotConvertError, Replacement, converter_for, frozen
from tfdpnorm.convert.report import KEPT, ConvertedLayer
from tfdpnorm.keras_compat.exchange import (
    cloned,
    copy_state,
    fresh_copy,
    models_within,
    set_trainable_alone,
)
from tfdpnorm.keras_compat.layers import BATCH_NORMALIZATIONS
from tfdpnorm.keras_compat.models import (
    is_always_called_in_training,
    is_made_of_layers,
    residual_additions,
    sublayers,
)
from tfdpnorm.layers import FrozenBatchNormalization, ScaleNorm

_SEVERAL = "called several times in one pass, or in a loop: it would need moments for each call"
_ALWAYS = "called with training=True: it used moments of the batch in inference too"


class Exchanges:
    """The replacements of one conversion, and the values to carry over once all layers are built.

    Args:
        settings: `Settings`.
        scale_norm: Whether `ScaleNorm` takes the place of residual additions.
        several: Names of layers that are called more than once in a pass.

    Attributes:
        report: List of `ConvertedLayer`.
    """

    def __init__(self, settings, scale_norm, several):
        self.settings, self.report = settings, []
        self._scale_norm, self._several = scale_norm, several
        self._carries = []

    def converted(self, model):
        """Returns a copy of a model that is made of layers, with layers exchanged."""
        sums = {}
        for part in models_within(model):
            if self._scale_norm and is_made_of_layers(part):
                sums.update({id(layer): why for layer, why in residual_additions(part)})
        copy, _ = cloned(model, lambda layer: self._exchange(layer, sums))
        for carry in self._carries:
            carry()
        return copy

    def _exchange(self, layer, sums):
        """The layer that replaces one of the graph, or None for a copy of it."""
        if id(layer) in sums:
            return self._sum(layer, sums[id(layer)])
        found = self._replacement(layer)
        return self._frozen_inside(layer) if found is None else self._taken(layer, found)

    def _frozen_inside(self, layer):
        """A copy of a layer with its own batch normalisation frozen; None for one without any."""
        inside = [x.name for x in sublayers(layer) if _is_trained_batch_norm(x)]
        if not inside:
            return None
        note = f"{', '.join(inside)} inside frozen: only layers of the model itself are exchanged"
        self._note(layer, KEPT, note, is_converted=False)
        copy = fresh_copy(layer)

        def carry():
            copy_state(layer, copy)
            for each in sublayers(copy):
                if _is_trained_batch_norm(each):
                    each.trainable = False

        self._carries.append(carry)
        return copy

    def _replacement(self, layer):
        """The `Replacement` of a layer, and a line of the report; None where it stays."""
        converter = converter_for(layer)
        if converter is None:
            if _is_trained_batch_norm(layer):
                why = f"no converter is registered for {type(layer).__name__}"
                self._note(layer, KEPT, why, is_converted=False)
            return None
        is_norm = isinstance(layer, BATCH_NORMALIZATIONS)
        takes_public_rows = is_norm and self.settings.batch_norm == "public_batch"
        try:
            if is_norm and layer.name in self._several:
                raise CannotConvertError(_SEVERAL)
            if takes_public_rows and is_always_called_in_training(layer):
                raise CannotConvertError(_ALWAYS)
            found = converter(layer, self.settings)
        except CannotConvertError as error:
            if not is_norm or not layer.built:
                self._note(layer, KEPT, str(error), is_converted=False)
                return None
            found = frozen(layer)
            self._note(layer, _type(found.layer), str(error), found.carried, is_converted=False)
            return found
        if found is None:
            if is_norm:
                self._note(layer, KEPT, "frozen: stays in inference mode")
            return None
        self._note(layer, _new_type(found.layer), found.lost, found.carried)
        return found

    def _taken(self, layer, found):
        if found.carry is not None:
            self._carries.append(found.carry)
        set_trainable_alone(found.layer, layer.trainable)
        return found.layer

    def _sum(self, layer, hindrance):
        if hindrance:
            self._note(layer, KEPT, hindrance, is_converted=False)
            return None
        batch_norm, channels = self.settings.batch_norm, layer.output.shape[-1]
        new = ScaleNorm(
            "public_batch" if batch_norm == "public_batch" else "group",
            groups=1 if batch_norm == "layer" else self.settings.groups_of(channels),
            name=layer.name,
            dtype=layer.dtype_policy,
        )
        self._note(layer, _type(new), "normalises the sum of the paths: new")
        return self._taken(layer, Replacement(new))

    def _note(self, layer, after, note, carried="", is_converted=True):
        self.report.append(
            ConvertedLayer(
                layer.name, _type(layer), after, carried, note, is_converted=is_converted
            )
        )


def _is_trained_batch_norm(layer):
    return (
        isinstance(layer, BATCH_NORMALIZATIONS)
        and type(layer) is not FrozenBatchNormalization
        and layer.trainable
    )


def _type(layer):
    return type(layer).__name__


def _new_type(layer):
    """Its type; of group normalisation, with the groups: one is layer normalisation."""
    is_group = isinstance(layer, keras.layers.GroupNormalization)
    return f"{_type(layer)}({layer.groups})" if is_group else _type(layer)
