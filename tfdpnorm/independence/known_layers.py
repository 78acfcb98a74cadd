"""Layers that are known to break the guarantee, by name and with their remedies."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.errors import PrivacyError
from tfdpnorm.independence.examples import input_specs
from tfdpnorm.independence.undisturbed import undisturbed
from tfdpnorm.keras_compat.exchange import exchanged_method
from tfdpnorm.keras_compat.graphs import as_written, only_infers_shapes, traced
from tfdpnorm.keras_compat.layers import (
    ALL_BATCH_NORMALIZATIONS,
    BATCH_NORMALIZATIONS,
    has_added_losses,
    has_added_metrics,
    has_boundaries_from_data,
    has_given_vocabulary,
    inner_lookup,
)
from tfdpnorm.keras_compat.models import specs_of_build, sublayers
from tfdpnorm.layers import FrozenBatchNormalization

if TYPE_CHECKING:
    from tfdpnorm.convert.report import ConversionReport


_EXAMPLES = 4
_OF_FEATURE_SPACE = "_preprocessor"  # as Keras names the layers of its features
_LOOKUPS = (keras.layers.StringLookup, keras.layers.IntegerLookup)


def check_known_layers(
    model: keras.Model, *, will_be_proved: bool = False, conversion: ConversionReport | None = None
) -> None:
    """Rejects layers that are known to break the guarantee.

    Args:
        model: A Keras model.
        conversion: `tfdpnorm.convert.ConversionReport` of the model; None if it was not converted.
        will_be_proved: Whether the model is only trained if per-example independence is verified
            for its training. Then batch normalisation is let pass that has trainable weights and is
            always called with `training=False`: it reads its averages and leaves them alone.

    Raises:
        ValueError: for batch normalisation that is not frozen, stateful recurrent layers, layers
            that `adapt()` fitted to data, losses on activities, and metrics inside of the model.
    """
    for message in known_faults(model, will_be_proved=will_be_proved, conversion=conversion):
        raise PrivacyError(message)


def check_no_adapted_layers(model: keras.Model, *, normalization_is_public: bool = False) -> None:
    """Rejects layers that `adapt()` fitted to data.

    Args:
        model: A Keras model.
        normalization_is_public: Whether those of `Normalization` are let pass.

    Raises:
        ValueError: naming the layer, with the remedy.
    """
    for layer, message in _adapted(model):
        if not (normalization_is_public and isinstance(layer, keras.layers.Normalization)):
            raise PrivacyError(message)


def check_no_added_losses(model: keras.Model) -> None:
    """Rejects losses that the last call of `model` added to the one of `compile`.

    Args:
        model: A Keras model.

    Raises:
        ValueError: naming the layers that called `add_loss`.
    """
    for message in _added(model, has_added_losses, _ADDED_LOSSES):
        raise PrivacyError(message)


def known_faults(model, *, will_be_proved=False, conversion=None):
    """Yields a message for all that `check_known_layers` rejects; its arguments."""
    normalizing = [
        x
        for x in sublayers(model)
        if isinstance(x, BATCH_NORMALIZATIONS)
        and x.trainable
        and type(x) is not FrozenBatchNormalization
    ]
    harmless = always_in_inference(model, normalizing) if will_be_proved else []
    for layer in sublayers(model):
        if any(x is layer for x in normalizing) and not any(x is layer for x in harmless):
            yield (
                f"Layer {layer.name!r} is a {type(layer).__name__}: it mixes the examples of a "
                f"batch. {_exchange_of(layer, conversion)} Other ways: "
                "docs/which_normalisation.md#a-model-with-batch-normalisation."
            )
        if getattr(layer, "stateful", False) and isinstance(layer, keras.layers.RNN):
            yield (
                f"Layer {layer.name!r} is stateful: it carries its state from one batch to the "
                "next. Use stateful=False."
            )
        if getattr(layer, "activity_regularizer", None) is not None:
            yield (
                f"Layer {layer.name!r} has an activity regularizer: its loss is computed over the "
                "whole batch and cannot be clipped per example. Use a weight regularizer, or add "
                "the term to the loss of each example."
            )
    yield from (message for _, message in _adapted(model))
    yield from _added(model, has_added_losses, _ADDED_LOSSES)
    yield from _added(model, has_added_metrics, _ADDED_METRICS)


def _exchange_of(layer, conversion):
    """How a batch normalisation can be exchanged, in words; also where that was tried."""
    if conversion is not None:
        why = conversion.why_kept(layer)
        return (
            f"The conversion left it{'' if why is None else f' ({why})'}. Register its replacement "
            "with tfdpnorm.convert.register_converter."
        )
    if type(layer) not in ALL_BATCH_NORMALIZATIONS:
        return (
            "Register its replacement with tfdpnorm.convert.register_converter, and pass "
            'convert="public_batch" to make_private.'
        )
    return 'Pass convert="public_batch" (or "group") to make_private.'


_ADDED_LOSSES = (
    "The call of {} uses add_loss(): such a loss is computed over the whole batch and cannot be "
    "clipped per example. Make the term of each example an output of the model, [rows, 1], with a "
    "loss that returns it, or a part of the loss."
)
_ADDED_METRICS = (
    "The call of {} uses add_metric(): its sums over examples would be weights of the model, and "
    "be saved with it without noise. Return the measured tensor as an output of the model, and "
    "pass the metric to compile()."
)


def _added(model, has_added, message):
    """Yields the message with the names of layers, if the last call of any of them added one."""
    names = [layer.name for layer in (model, *sublayers(model)) if has_added(layer)]
    if names:
        yield message.format(names)


def _adapted(model):
    """Yields (layer, message) for each layer that `adapt()` fitted."""
    layers = sublayers(model)
    # A TextVectorization holds a lookup of its own, which has no vocabulary argument to point to.
    inner = {
        id(inner_lookup(layer))
        for layer in layers
        if isinstance(layer, keras.layers.TextVectorization)
    }
    for layer in layers:
        if id(layer) not in inner and _holds_what_adapt_saw(layer):
            message = (
                f"Layer {layer.name!r}, a {type(layer).__name__}, has state from adapt(), assigned "
                "or loaded: the data that adapt() saw would be released without noise. "
                f"{_remedy(layer)}"
            )
            yield layer, message


def _holds_what_adapt_saw(layer):
    if isinstance(layer, keras.layers.TextVectorization):
        return _holds_what_adapt_saw(inner_lookup(layer))
    # Loaded layers do not know that they were adapted; only their state shows it.
    if isinstance(layer, _LOOKUPS):
        return not has_given_vocabulary(layer) and int(layer.lookup_table.size()) > 0
    if isinstance(layer, keras.layers.Discretization):
        return has_boundaries_from_data(layer)
    if isinstance(layer, keras.layers.Normalization):
        if layer.input_mean is not None or not layer.built:
            return False
        fresh = not layer.adapt_mean.numpy().any() and (layer.adapt_variance.numpy() == 1).all()
        return not fresh
    return bool(getattr(layer, "is_adapted", False))


def _remedy(layer):
    if layer.name.endswith(_OF_FEATURE_SPACE):
        return (
            "In a FeatureSpace, use features that need no adapt(): string_hashed(num_bins=...), "
            "integer_hashed(num_bins=...) and float_rescaled(scale=..., offset=...), with public "
            "constants."
        )
    if isinstance(layer, keras.layers.Normalization):
        return (
            "Give it public constants: Normalization(mean=..., variance=...). If adapt() saw "
            "public data alone, tfdpnorm.convert_model(model, normalization_is_public=True) does "
            "so."
        )
    if isinstance(layer, keras.layers.Discretization):
        return "Give it public constants: Discretization(bin_boundaries=...)."
    if isinstance(layer, keras.layers.TextVectorization):
        return (
            "Give it the words of public text, TextVectorization(vocabulary=...), and run it on "
            "the texts before fit(): x = layer(texts).numpy()."
        )
    if isinstance(layer, _LOOKUPS):
        return f"Give it the words of public text: {type(layer).__name__}(vocabulary=...)."
    return "Give it public constants in its constructor."


def always_in_inference(model, layers):
    """Returns those of some layers that every call of the model runs with `training=False`.

    Their `call` takes `training`. A trace of the model in training is looked at. It is no proof:
    Python may do something else in the next trace. What trains is verified for its own. Empty if
    the model cannot be traced, since it does not know its inputs, for instance.
    """
    specs = input_specs(model) or specs_of_build(model) if model.built and layers else None
    if specs is None:
        return []
    seen = {id(layer): [] for layer in layers}

    def hooked(layer):
        call = layer.call

        def noted(inputs, *args, **kwargs):
            if not only_infers_shapes(tf.compat.v1.get_default_graph()):
                training = args[0] if args else kwargs.get("training")
                seen[id(layer)].append(training is False)
            return call(inputs, *args, **kwargs)

        return exchanged_method(layer, "call", as_written(noted))

    def of_rows(spec):
        return tf.TensorSpec([_EXAMPLES, *spec.shape[1:]], spec.dtype)

    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(undisturbed(model))
            for layer in layers:
                stack.enter_context(hooked(layer))
            specs = tf.nest.map_structure(of_rows, specs)
            traced(lambda x: model(x, training=True), (specs,))
    except Exception:  # whatever code of the user's raises: then nothing is known
        return []
    return [layer for layer in layers if seen[id(layer)] and all(seen[id(layer)])]
