"""Parts of a model in the places of others: layers in a copy, attributes and weights in a call.

`keras.models.clone_model` makes new layers from the configs of the old ones, so that two things are
missing: the weights, and what no config holds, such as which part of a layer is frozen. Private
parts: `_trainable`, and `_trainable_variables` of Keras 3; the public setter of `trainable` also
changes all layers inside.

Keras has no public way to run a layer with another attribute: `Layer.__setattr__` of Keras 2 tracks
what is assigned, so that a tensor in place of a weight would take the weight out of
`layer.weights`. `exchanged` writes to the attributes of the instance directly. Nor is there a
public way to run a layer with other weights: `tf.keras` 2.15 has no stateless call. Private parts:
the lists `_trainable_weights` and `_non_trainable_weights` of a layer, and the names of attributes
that begin with `_self_`, which hold what Keras tracks, not what the layer's own code calls.
"""

import contextlib
import inspect

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.devices_and_precision import is_cast_by_keras, made_under
from tfdpnorm.keras_compat.models import (
    is_made_of_layers,
    modules_inside,
    sublayers,
)
from tfdpnorm.keras_compat.variables import KERAS_3, raw

# --- attributes and methods, for the time of a call ---

_ABSENT = object()


@contextlib.contextmanager
def exchanged(owner, /, **attributes):
    """Context in which attributes of an object have other values.

    Afterwards, also after an exception, each attribute is what it was before; one that only the
    class had is deleted from the instance again. Contexts may be nested. The names of properties
    have no effect.
    """
    own = vars(owner)
    before = {name: own.get(name, _ABSENT) for name in attributes}
    own.update(attributes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _ABSENT:
                own.pop(name, None)
            else:
                own[name] = value


def exchanged_method(layer, name, function):
    """Context in which `layer.name(...)` runs `function`, which takes what the method takes.

    On the instance: functional, nested and subclassed models all call it there. The function gets
    the signature of the method, by which Keras decides whether to pass `training` and `mask`.
    """
    function.__signature__ = inspect.signature(getattr(layer, name))
    return exchanged(layer, **{name: function})


# --- tensors in the places of variables, for the time of a call ---

# Where Keras and TensorFlow track the variables: never replaced, and no layer reads them there.
_TRACKING = {
    f"{kind}_{what}"
    for kind in ("_trainable", "_non_trainable")
    for what in ("weights", "variables")
}


@contextlib.contextmanager
def replaced(layer, variables, draws):
    """Context in which attributes of `layer`, and of all inside it, hold draws, not variables.

    `draws` has the tensor for each variable, by its id. The lists in which Keras tracks the
    variables stay as they are. Variables that are in no attribute are rejected.
    """
    missing = {id(v): v for v in variables}
    with contextlib.ExitStack() as stack:
        for module in (layer, *modules_inside(layer)):

            def draw(variable, module=module):
                missing.pop(id(variable), None)
                # In the dtype in which `module` reads the variable during its call.
                draw = draws[id(variable)]
                if not is_cast_by_keras(variable):
                    return draw
                dtype = tf.as_dtype(getattr(module, "compute_dtype", None) or draw.dtype)
                return tf.cast(draw, dtype) if dtype.is_floating else draw

            changes = {}
            for name, value in vars(module).items():
                if name in _TRACKING or name.startswith("_self_"):
                    continue
                new = _with_draws(value, draws, draw, set())
                if new is not value:
                    changes[name] = new
            stack.enter_context(exchanged(module, **changes))
        if missing:
            raise ValueError(
                f"Layer {layer.name!r} does not hold these weights in attributes: "
                f"{[v.name for v in raw(list(missing.values()))]}. Set them as self.kernel or the "
                "like, or in a list, tuple or dict."
            )
        yield


def _with_draws(value, draws, draw, seen):
    """`value` with each variable of `draws` replaced; `value` itself where it holds none."""
    if id(value) in draws:
        return draw(value)
    if not isinstance(value, (list, tuple, dict)) or id(value) in seen:
        return value
    seen = seen | {id(value)}
    items = list(value.values()) if isinstance(value, dict) else list(value)
    replaced = [_with_draws(x, draws, draw, seen) for x in items]
    if all(x is y for x, y in zip(items, replaced, strict=True)):
        return value
    if isinstance(value, dict):
        return dict(zip(value, replaced, strict=True))
    if isinstance(value, list):
        return replaced
    return type(value)(*replaced) if hasattr(value, "_fields") else tuple(replaced)


# --- a copy of a model with layers exchanged ---


def cloned(model, exchange):
    """Copies a model layer by layer, and the models nested in it, with layers exchanged.

    All of `models_within(model)` have to be built and Sequential or functional. `exchange` gives
    for a layer the new one in its place, or None for a copy, which has the weights of the original
    and is frozen as it is. It is not asked about models that are made of layers, input layers and
    layers inside of layers. A layer that stands in several of the models is copied once.

    Returns the copy and a list of pairs (layer, layer in its place), whose weights are left to the
    caller.
    """
    models, copies, in_place, known = [], [], [], {}

    def copied(layer):
        if not isinstance(layer, keras.layers.Layer):  # an operation of `keras.ops`
            return layer.__class__.from_config(layer.get_config())
        if id(layer) not in known:
            known[id(layer)] = made(layer)
        return known[id(layer)]

    def made(layer):
        if isinstance(layer, keras.Model) and is_made_of_layers(layer):
            return clone(layer)
        other = exchange(layer)
        if other is None:
            other = fresh_copy(layer)
            copies.append((layer, other))
        else:
            in_place.append((layer, other))
        return other

    def clone(part):
        connects = KERAS_3 and not isinstance(part, keras.Sequential)
        options = {"call_function": _called} if connects else {}
        models.append((part, keras.models.clone_model(part, clone_function=copied, **options)))
        return models[-1][1]

    copy = clone(model)
    for part, other in models:
        set_trainable_alone(other, part.trainable)
    for layer, other in copies:
        copy_state(layer, other)
    return copy, in_place


def _called(layer, *args, **kwargs):
    """Calls a layer of a copy; Keras 3 passes what the layer in the original was called with."""
    if "mask" in kwargs and "mask" not in inspect.signature(layer.call).parameters:
        del kwargs["mask"]  # which came with the tensors
    return layer(*args, **kwargs)


def models_within(model):
    """Yields `model` and the models that are layers of it, at any depth: what `cloned` clones."""
    yield model
    if is_made_of_layers(model):
        for layer in model.layers:
            if isinstance(layer, keras.Model):
                yield from models_within(layer)


def fresh_copy(layer):
    """Returns a new layer of the same configuration, which has to make all that the layer holds."""
    config = layer.get_config()
    try:
        copy = layer.__class__.from_config(_without_builds(config) if KERAS_3 else config)
    except TypeError as error:
        raise ValueError(
            f"{type(layer).__name__} {layer.name!r} cannot be made again from its own "
            "get_config(), so no copy of the model can be converted. Mend that class; or leave "
            "convert out and freeze the batch normalisation: layer.trainable = False."
        ) from error
    if inspect.isfunction(vars(layer).get("activation")):
        copy.activation = layer.activation  # Keras 2 takes its own function of that name.
    return copy


def _without_builds(config):
    """A config by which Keras 3 does not build the layers inside of a wrapper at once."""
    if isinstance(config, (list, tuple)):
        return type(config)(_without_builds(part) for part in config)
    if not isinstance(config, dict):
        return config
    return {k: _without_builds(part) for k, part in config.items() if k != "build_config"}


def copy_state(layer, copy):
    """Gives a built copy of a built layer its weights, and freezes the same parts."""
    for own, other in zip([layer, *sublayers(layer)], [copy, *sublayers(copy)], strict=True):
        set_trainable_alone(other, own.trainable)
    # Now: with other parts frozen, weights come in another order.
    copy.set_weights(layer.get_weights())


def set_trainable_alone(layer, trainable):
    """Sets `trainable` of a layer, and leaves the layers inside it as they are."""
    layer._trainable = trainable
    if KERAS_3:  # where a variable itself says whether it is trained
        for variable in layer._trainable_variables:
            variable.trainable = trainable


def without_mixed_precision(model):
    """Returns a copy of `model` in which every layer computes in the dtype of its weights.

    It has to be built and Sequential or functional, and so have the models nested in it.
    """

    def wide(layer):
        config = layer.get_config()
        found = _without_policies(config)
        return None if found == config else layer.__class__.from_config(found)

    with made_under(model.variable_dtype):  # for what no config holds, such as nested models
        copy, widened = cloned(model, wide)
    for layer, other in widened:
        copy_state(layer, other)
    return copy


def _without_policies(config):
    """The config with the variables' dtype instead of each mixed policy, at any depth."""
    if isinstance(config, (list, tuple)):
        parts = [_without_policies(part) for part in config]
        return parts if isinstance(config, list) else tuple(parts)
    if not isinstance(config, dict):
        return config
    if config.get("class_name") in ("Policy", "DTypePolicy"):
        kind = keras.DTypePolicy if KERAS_3 else keras.mixed_precision.Policy
        return kind(config["config"]["name"]).variable_dtype
    return {name: _without_policies(part) for name, part in config.items()}
