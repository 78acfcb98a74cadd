"""What a resumed run is compared by beside its plan: optimizer, loss, model and the like.

Everything is described by plain values that are the same in every process: Keras' configurations
without the names that it numbers anew, and digests of the code of functions and classes that are
not Keras' own, with the plain values and functions that they use. Weights are not looked at.

It guards against mistakes: whoever wants to can make different things look alike. What is repeated
with another result is found by the ledger, whatever the reason.
"""

import functools
import hashlib
import inspect
import json
import types

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.walk import sublayers

# Of a configuration: names, what devices decide, and what no longer matters once weights are there.
_LEFT_OUT = """
name jit_compile is_legacy_optimizer build_config build_input_shape batch_input_shape
""".split()
_KNOWN = ("keras.", "tensorflow.", "tf_keras.", "tfdpnorm.", "numpy.", "builtins")
_DIGITS = 16


def described_training(optimizer, loss, loss_weights):
    """Describes what `compile` was given: a dict of plain values by name.

    The learning rate is that at the time of the call, or the schedule that gives it.
    """
    return {
        **_parts("optimizer", optimizer),
        **_parts("loss", loss),
        "loss_weights": _short(_plain(loss_weights)),
    }


def described_model(model, augmentations=()):
    """Describes a model, its layers with their regularisers, and what makes augmented views.

    Args:
        model: A Keras model, built.
        augmentations: Functions and Keras layers.

    Returns:
        A dict of plain values by name.
    """
    layers = [x for x in sublayers(model) if not isinstance(x, keras.layers.InputLayer)]
    described = {f"layer {i}": _short(_plain(layer)) for i, layer in enumerate(layers)}
    if not isinstance(model, keras.Sequential):
        described["model"] = _short(_plain(model))
    for i, augmentation in enumerate(augmentations):
        inner = sublayers(augmentation) if isinstance(augmentation, keras.layers.Layer) else []
        described[f"augmentation {i}"] = _short(_plain([augmentation, *inner]))
    return described


def described_rows(public_batch):
    """Describes a public batch, a structure of tensors: a dict of plain values by name."""
    return {} if public_batch is None else {"public_batch": _short(_plain(public_batch))}


def differences(before, now):
    """Says what differs between two descriptions: a list of texts, empty if nothing does."""
    return [
        f"{name} is {before.get(name, 'nothing')} there and {now.get(name, 'nothing')} here"
        for name in dict.fromkeys((*before, *now))
        if before.get(name, "nothing") != now.get(name, "nothing")
    ]


def _parts(name, value):
    """The description of an object with a configuration, by the names of its settings."""
    plain = _plain(value)
    if not isinstance(plain, dict) or not {"config", "attributes"} & set(plain):
        return {name: _short(plain)}
    config = plain.get("config", {}) | plain.get("attributes", {})
    settings = {f"{name}.{key}": _short(config[key]) for key in sorted(config)}
    return {name: _short(plain["class"]), **settings}


def _short(plain):
    """JSON text, or the beginning of it and a digest where it is long."""
    text = json.dumps(plain, sort_keys=True)
    if len(text) <= 80:
        return text
    return f"{text[:40]}... ({hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]})"


def _plain(value, seen=()):
    """What JSON can hold, of anything; equal for what is built in the same way."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if id(value) in seen:
        return "itself"
    seen = (*seen, id(value))
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(value[key], seen) for key in value if key not in _LEFT_OUT}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each, seen) for each in value]
    if isinstance(value, bytes):
        return _digest(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tf.Variable):
        return ["variable", list(value.shape), value.dtype.name]
    if isinstance(value, np.ndarray) or hasattr(value, "numpy"):
        array = np.asarray(value)
        return array.item() if not array.shape else [*array.shape, _digest(array.tobytes())]
    if isinstance(value, functools.partial):
        return ["partial", *(_plain(x, seen) for x in (value.func, value.args, value.keywords))]
    if isinstance(value, types.MethodType):
        return [_plain(value.__func__, seen), _plain(value.__self__, seen)]
    if hasattr(value, "python_function"):
        return _plain(value.python_function, seen)
    if isinstance(value, types.FunctionType):
        return _of_function(value, seen)
    if isinstance(value, type):
        return _of_class(value)
    return _of_object(value, seen)


def _of_function(function, seen):
    if _is_known(function):
        return f"{function.__module__}.{function.__qualname__}"
    cells = [_content(cell) for cell in function.__closure__ or ()]
    names = (n for n in function.__code__.co_names if n in function.__globals__)
    around = (
        cells,
        function.__defaults__,
        function.__kwdefaults__,
        _plain_values({name: function.__globals__[name] for name in names}),
    )
    return [function.__name__, _of_code(function.__code__), *(_plain(x, seen) for x in around)]


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _of_code(code):
    """A digest of what a function does, wherever it stands in its file."""
    constants = [
        _of_code(x) if isinstance(x, types.CodeType) else repr(x)
        for x in code.co_consts
        if not isinstance(x, frozenset)
    ]
    return _digest(repr((code.co_code, constants, code.co_names, code.co_varnames)).encode())


def _of_class(cls):
    if _is_known(cls):
        return f"{cls.__module__}.{cls.__qualname__}"
    # Those that it inherits are among them.
    own = [f for _, f in inspect.getmembers(cls, inspect.isfunction) if not _is_known(f)]
    return [cls.__name__, [_of_code(inspect.unwrap(f).__code__) for f in own]]


def _of_object(value, seen):
    described = {"class": _plain(type(value), seen)}
    if isinstance(value, keras.layers.Lambda):
        return {**described, "function": _plain(value.function, seen)}
    try:
        config = value.get_config()
    except Exception:  # whatever a class of the user's raises, or has no such method
        config = None
    if isinstance(config, dict):
        config = {key: config[key] for key in config if not key.endswith("_initializer")}
        described["config"] = _plain(_renamed(config, _names(value)), seen)
    if hasattr(value, "__dict__") and ("config" not in described or not _is_known(type(value))):
        own = vars(value)
        if isinstance(value, keras.layers.Layer):
            own = {key: own[key] for key in own if not key.startswith("_")}
        described["attributes"] = _plain(_plain_values(own), seen)
    return described


def _plain_values(values):
    """Those of a dict that are numbers, texts, arrays, functions, classes, schedules; in order."""
    schedule = keras.optimizers.schedules.LearningRateSchedule
    kinds = (bool, int, float, str, np.generic, np.ndarray, types.FunctionType, type, schedule)
    return {
        key: values[key]
        for key in sorted(values)
        if values[key] is None or isinstance(values[key], kinds)
    }


def _names(value):
    """Numbers for the names of a model's layers, which Keras counts up in each process."""
    if not isinstance(value, keras.layers.Layer):
        return {}
    return {x.name: f"#{i}" for i, x in enumerate(sublayers(value))}


def _renamed(value, names):
    """A configuration with other names of layers, which stand in lists: who gives to whom."""
    if isinstance(value, dict):
        return {key: _renamed(value[key], names) for key in value}
    if isinstance(value, list | tuple):
        return [
            names.get(each, each) if isinstance(each, str) else _renamed(each, names)
            for each in value
        ]
    return value


def _is_known(value):
    return (value.__module__ or "").startswith(_KNOWN)


def _digest(data):
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
