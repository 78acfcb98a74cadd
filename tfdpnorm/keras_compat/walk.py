"""Every layer of a model, wherever it is nested.

Private part: `_flatten_layers`, the one walk that Keras 2 and 3 share and that also finds layers
held in lists and dicts; the public `model.layers` is one level deep.
"""

import collections.abc

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.models import is_functional


def sublayers(model):
    """Returns all layers inside `model` (not itself), nested models and wrappers included."""
    return list(model._flatten_layers(include_self=False))


def direct_sublayers(layer):
    """Returns the layers that `layer` holds itself, also in lists and dicts; no input layers.

    A Sequential model has an input layer once it is built.
    """
    found = layer._flatten_layers(recursive=False, include_self=False)
    return [x for x in found if not isinstance(x, keras.layers.InputLayer)]


def modules_inside(module):
    """Returns every `tf.Module` in attributes of `module`, of modules in these, and so on; a list.

    Layers and metrics are modules. Unlike `module.submodules` this sorts no dict by its keys: those
    of the masks that a recurrent layer with `recurrent_dropout` keeps are graphs.
    """
    found, seen = [], {id(module)}
    waiting = list(vars(module).values())
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, tf.Module):
            found.append(value)
            waiting += vars(value).values()
        else:
            waiting += _held_in(value)
    return found


def _held_in(value):
    """What a list, tuple, dict or the like holds; nothing for anything else."""
    if isinstance(value, collections.abc.Mapping):
        return list(value.values())
    if isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes)):
        return list(value)
    # Classes of attrs, and others that say to TensorFlow what they hold.
    return tf.nest.flatten(value) if tf.nest.is_nested(value) else []


def own_weights(layer):
    """Returns the weights that a layer holds itself, not through layers inside it.

    A recurrent layer counts as one: Keras runs its cell's weights through kernels of its own, not
    through the cell.
    """
    if isinstance(layer, keras.layers.RNN):
        return list(layer.weights)
    inner = {w.ref() for sub in sublayers(layer) for w in sub.weights}
    return [w for w in layer.weights if w.ref() not in inner]


def weight_owners(model):
    """Returns the layers inside `model` that hold weights themselves (see `own_weights`)."""
    cells = set()
    for layer in sublayers(model):
        if isinstance(layer, keras.layers.RNN):
            cells.update(id(inner) for inner in sublayers(layer))
    owners = [x for x in sublayers(model) if own_weights(x) and id(x) not in cells]
    return list(dict.fromkeys(owners))


def weights_are_in_the_graph_of_layers(model):
    """Whether all weights are those of layers that `model`, a graph of layers, itself connects.

    Each of these layers reads what comes from the inputs of the model.
    """
    connected = {id(layer) for layer in model.layers}
    return is_functional(model) and all(id(x) in connected for x in weight_owners(model))


def layer_numbers(model, variables):
    """Returns for each variable the number of the layer inside `model` that owns it.

    A variable that no layer inside owns, such as one of a subclassed model itself, has a number of
    its own.
    """
    numbers = {}
    for number, layer in enumerate(weight_owners(model)):
        for variable in own_weights(layer):
            numbers.setdefault(variable.ref(), number)
    return [numbers.setdefault(v.ref(), -1 - i) for i, v in enumerate(variables)]
