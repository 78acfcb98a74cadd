"""The exchange of layers in a model, in the models nested in it, and in attributes of layers."""

import dataclasses

from tensorflow import keras

from tfdpnorm.convert.converters import CannotConvertError, Replacement, converter_for, frozen
from tfdpnorm.convert.report import KEPT, ConvertedLayer
from tfdpnorm.keras_compat.exchange import (
    cloned,
    copy_state,
    exchange_in_attributes,
    fresh_copy,
    models_within,
    paired_sublayers,
    set_trainable_alone,
)
from tfdpnorm.keras_compat.layers import ALL_BATCH_NORMALIZATIONS, BATCH_NORMALIZATIONS, axes_of
from tfdpnorm.keras_compat.models import (
    direct_sublayers,
    is_always_called_in_training,
    is_made_of_layers,
    layers_unlike_configs,
    note_unlike_config,
    own_weights,
    residual_additions,
    sublayers,
)
from tfdpnorm.layers import FrozenBatchNormalization, ScaleNorm

_SEVERAL = "called several times in one pass, or in a loop: it would need moments for each call"
_ALWAYS = "called with training=True: it used moments of the batch in inference too"
_OUT_OF_REACH = "in an attribute that is neither a layer nor a list, tuple or dict of them"
_NOT_IN_FILES = (
    "exchanged in an attribute, which a file of the whole model does not contain: keep weights"
)
_SUMS = {"public_batch": "public_batch", "group": "group", "layer": "group", "frozen": "group"}


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
        self._carries, self._made = [], {}

    def clone(self, model):
        """Returns a copy of a model that is made of layers, with layers exchanged."""
        sums = {}
        for part in models_within(model):
            if self._scale_norm and is_made_of_layers(part):
                sums.update({id(layer): why for layer, why in residual_additions(part)})
        copy, _ = cloned(model, lambda layer: self._exchange(layer, "", sums))
        return copy

    def carry_over(self):
        """Gives the new layers what is carried over; they are built."""
        for carry in self._carries:
            carry()

    def with_attributes_exchanged(self, layer, copy, path):
        """Returns `copy`, not built, with the layers in its attributes exchanged.

        It is a fresh copy of `layer`. In the report, the names of layers inside begin with `path`.
        Raises CannotConvertError if layers that are to be exchanged are not yet in the copy.
        """
        pairs, unlike = paired_sublayers(layer, copy, leave=_is_cloned)
        for old, _ in unlike:
            if self._needs_exchange_inside(old):
                raise CannotConvertError(
                    f"{_type(old)} makes layers when it is built, which the copy does not have yet"
                )
        original_of = {id(new): old for old, new in pairs}
        gone, reached, first = set(), set(), len(self.report)

        def exchange(new):
            old = original_of.get(id(new))
            if old is None:
                return None
            reached.add(id(old))
            if id(old) in self._made:
                return self._made[id(old)]
            if _is_cloned(old):
                made = self.clone(old)
            else:
                found = self._replacement(old, f"{path}/{old.name}")
                if found is None:
                    exchange_in_attributes(new, exchange)
                    return None
                made = self._taken(old, found)
            gone.update(id(x) for x in (old, *sublayers(old)))
            self._made[id(old)] = made
            return made

        exchange_in_attributes(copy, exchange)
        for old, _ in pairs:
            if _is_trained_batch_norm(old) and id(old) not in reached | gone:
                self._note(old, f"{path}/{old.name}", KEPT, _OUT_OF_REACH, is_converted=False)
        if gone:
            self._compare_with_config(copy, first)
        whole = {id(old) for old, _ in unlike}
        own = [pair for pair in ((layer, copy), *pairs) if id(pair[0]) not in whole]
        self._carries.append(lambda: _copy_own([p for p in own if id(p[0]) not in gone], gone))
        self._carries += [lambda pair=pair: copy_state(*pair) for pair in unlike]
        return copy

    def _exchange(self, layer, path, sums):
        """The layer that replaces one of the graph, or None for a copy of it."""
        if id(layer) in sums:
            return self._sum(layer, sums[id(layer)])
        name = f"{path}{layer.name}"
        found = self._replacement(self._over_steps(layer), name)
        if found is not None:
            return self._taken(layer, found)
        if not self._needs_exchange_inside(layer):
            return None
        try:
            return self.with_attributes_exchanged(layer, fresh_copy(layer), name)
        except CannotConvertError as error:
            return self._frozen_inside(layer, name, str(error))

    def _frozen_inside(self, layer, name, why):
        """A copy of a layer in which batch normalisation stays, and normalises by its averages."""
        copy = fresh_copy(layer)
        inside = [x.name for x in sublayers(layer) if _is_trained_batch_norm(x)]
        note = f"{why}; {', '.join(inside)} inside frozen instead"
        self._note(layer, name, KEPT, note, is_converted=False)

        def carry():
            copy_state(layer, copy)
            for each in sublayers(copy):
                if _is_trained_batch_norm(each):
                    each.trainable = False

        self._carries.append(carry)
        return copy

    def _over_steps(self, layer):
        """For a wrapped batch normalisation of each step, the same one over all steps.

        Where statistics are constants or of public rows, that is the same function, and no wrapper
        has to be saved and folded. Moments of each example stay those of a step.
        """
        by_step = isinstance(layer, keras.layers.TimeDistributed) and layer.built
        if not by_step or self.settings.batch_norm not in ("public_batch", "frozen"):
            return layer
        inner = layer.layer
        if type(inner) not in ALL_BATCH_NORMALIZATIONS or not inner.trainable:
            return layer
        axes = [axis + 1 for axis in axes_of(inner)]
        axis = axes if len(axes) > 1 else axes[0]
        config = {**inner.get_config(), "name": layer.name, "axis": axis}
        whole = type(inner).from_config(config)
        shape = [None] * (inner.input_spec.ndim + 1)
        for axis, size in inner.input_spec.axes.items():
            shape[axis + 1] = size
        whole.build(shape)
        whole.set_weights(inner.get_weights())
        return whole

    def _needs_exchange_inside(self, layer):
        return any(
            converter_for(x) is not None
            and (x.trainable or not isinstance(x, BATCH_NORMALIZATIONS))
            for x in sublayers(layer)
        )

    def _replacement(self, layer, name):
        """The `Replacement` of a layer, and a line of the report; None where it stays."""
        converter = converter_for(layer)
        if converter is None:
            if _is_trained_batch_norm(layer):
                why = f"no converter is registered for {type(layer).__name__}"
                self._note(layer, name, KEPT, why, is_converted=False)
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
                self._note(layer, name, KEPT, str(error), is_converted=False)
                return None
            found = frozen(layer)
            self._note(
                layer, name, _type(found.layer), str(error), found.carried, is_converted=False
            )
            return found
        if found is None:
            if is_norm:
                self._note(layer, name, KEPT, "frozen: stays in inference mode")
            return None
        self._note(layer, name, _new_type(found.layer), found.lost, found.carried)
        return found

    def _taken(self, layer, found):
        if found.carry is not None:
            self._carries.append(found.carry)
        set_trainable_alone(found.layer, layer.trainable)
        return found.layer

    def _compare_with_config(self, copy, first):
        """Notes in the report, from line `first` on, what the config of `copy` does not make.

        Also notes the copy if files of it cannot be loaded, since weights would not fit.
        """
        if _config_makes(copy, type):
            return
        if not _config_makes(copy, _type_by_weights):
            note_unlike_config(copy)
        for number, line in enumerate(self.report[first:], first):
            if line.after != KEPT and _NOT_IN_FILES not in line.note:
                note = "; ".join(filter(None, [line.note, _NOT_IN_FILES]))
                self.report[number] = dataclasses.replace(line, note=note)

    def _sum(self, layer, hindrance):
        if hindrance:
            self._note(layer, layer.name, KEPT, hindrance, is_converted=False)
            return None
        kind = _SUMS[self.settings.batch_norm]
        channels = layer.output.shape[-1]
        of_layer = self.settings.batch_norm == "layer"
        new = ScaleNorm(
            kind,
            groups=1 if of_layer else self.settings.groups_of(channels),
            name=layer.name,
            dtype=layer.dtype_policy,
        )
        self._note(layer, layer.name, _type(new), "normalises the sum of the paths: new")
        return self._taken(layer, Replacement(new))

    def _note(self, layer, name, after, note, carried="", is_converted=True):
        self.report.append(
            ConvertedLayer(name, _type(layer), after, carried, note, is_converted=is_converted)
        )


def _is_trained_batch_norm(layer):
    return (
        isinstance(layer, BATCH_NORMALIZATIONS)
        and type(layer) is not FrozenBatchNormalization
        and layer.trainable
    )


def _is_cloned(layer):
    return isinstance(layer, keras.Model) and is_made_of_layers(layer)


def _config_makes(layer, kind):
    """Whether the config of a layer that is not built makes layers of the same kinds inside it."""
    if layers_unlike_configs(layer):
        return False
    try:
        again = fresh_copy(layer)
    except Exception:  # of its own get_config, which may look at what was exchanged
        return False
    return _holds_the_same(layer, again, kind)


def _holds_the_same(layer, again, kind):
    own, others = direct_sublayers(layer), direct_sublayers(again)
    if not others:
        return True  # made by `build`
    return [kind(x) for x in own] == [kind(x) for x in others] and all(
        _holds_the_same(*pair, kind) for pair in zip(own, others, strict=True)
    )


def _type_by_weights(layer):
    """The type of a layer, or that of another that has the same weights."""
    return (
        keras.layers.BatchNormalization if type(layer) is FrozenBatchNormalization else type(layer)
    )


def _type(layer):
    return type(layer).__name__


def _new_type(layer):
    """Its type; of group normalisation, with the groups: one is layer normalisation."""
    is_group = isinstance(layer, keras.layers.GroupNormalization)
    return f"{_type(layer)}({layer.groups})" if is_group else _type(layer)


def _copy_own(pairs, gone):
    """Gives copies the weights that layers hold themselves, and freezes the same ones."""
    for layer, copy in pairs:
        set_trainable_alone(copy, layer.trainable)
        inside = sublayers(layer)
        if isinstance(layer, keras.layers.RNN) and any(id(x) in gone for x in inside):
            continue  # its cells hold them
        for old, new in zip(own_weights(layer), own_weights(copy), strict=True):
            new.assign(old)
