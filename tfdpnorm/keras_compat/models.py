"""The parts of a Keras model: its structure, all layers in it, and its graph of layers.

Private parts of Keras 2: `_is_graph_network`, and `_nested_inputs` of functional models; the public
`model.inputs` has lost the structure (a dict, say) in which a model takes its inputs;
`_build_input_shape` of models that `build(shape)` was called on; the names of the modules that
define the layers of Keras; and `_flatten_layers`, the one walk that Keras 2 and 3 share and that
also finds layers held in lists and dicts, where the public `model.layers` is one level deep.

Version-bound: Keras 2 has a node for each call of a layer in a graph (`inbound_nodes` of a layer,
`node` of a Keras tensor), which knows the nodes before it and the arguments (`parent_nodes`,
`keras_inputs`, `call_kwargs`). So has Keras 3, by other and private names, for operations that are
no layers as well.

Private parts of Keras 3: `Functional` with `_inputs_struct` and `_outputs_struct`, and the one that
a Sequential model holds as `_functional`; `_layers`; `_build_shapes_dict`; `_inbound_nodes`.
Publicly a model has flat lists of inputs and outputs, layers one level deep, no shape that it was
built on, and no calls.
"""

import collections.abc

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.variables import KERAS_3, raw

if KERAS_3:
    from keras.src.models.functional import Functional

# --- kinds of models ---


def is_functional(model):
    """Whether `model` is a graph of layers: a functional one, or a Sequential one that is built."""
    if not KERAS_3:
        return getattr(model, "_is_graph_network", False)
    return _functional(model) is not None


def _functional(model):
    """The graph of layers that a model of Keras 3 is, or that a Sequential one holds; or None."""
    if isinstance(model, keras.Sequential):
        return model._functional
    return model if isinstance(model, Functional) else None


def is_made_of_layers(model):
    """Whether `model` is a Sequential or functional model, so that its layers are all it does."""
    return isinstance(model, keras.Sequential) or is_functional(model)


def is_stock(layer):
    """Whether a layer or model is one of Keras' own, and runs no function from elsewhere.

    The layers that wrap functions and operations in a functional model are not.
    """
    path = type(layer).__module__.split(".")
    wraps_functions = path[-1] in ("lambda_layer", "tf_op_layer", "tfsm_layer", "jax_layer")
    return path[0] == keras.Model.__module__.split(".")[0] and not wraps_functions


def symbolic_inputs(model):
    """Returns the structure of Keras tensors that `model` takes; None if it is not functional."""
    if not KERAS_3:
        return getattr(model, "_nested_inputs", None)
    functional = _functional(model)
    return None if functional is None else as_specs(functional._inputs_struct)


def symbolic_outputs(model):
    """Returns the structure of Keras tensors that `model` gives; None if it is not functional."""
    if not KERAS_3:
        return model.output if is_functional(model) else None
    functional = _functional(model)
    return None if functional is None else as_specs(functional._outputs_struct)


def graph_inputs(model):
    """Returns the tensors that a graph of layers begins with, a list; empty if there is none.

    In the order of `symbolic_inputs`; these are those that the nodes of the graph know.
    """
    if not is_functional(model):
        return []
    return tf.nest.flatten(_functional(model)._inputs_struct if KERAS_3 else symbolic_inputs(model))


def as_specs(tensors):
    """Returns a structure of Keras tensors as one of `tf.TensorSpec`, under Keras 3."""
    if not KERAS_3:
        return tensors
    return tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype, t.name), tensors)


def specs_of_call(model):
    """Returns what `save_spec` of Keras 2 does; None under Keras 3, which keeps shapes alone."""
    return None if KERAS_3 else model.save_spec()


def specs_of_build(model):
    """Returns the `tf.TensorSpec`s on which `build(shape)` called a model, a structure, or None.

    Keras calls it on floats, whatever it is going to be trained on.
    """
    shape = getattr(model, "_build_input_shape", None)
    if KERAS_3:
        shapes = getattr(model, "_build_shapes_dict", None) or {}  # by the names of the arguments
        shape = next(iter(shapes.values())) if len(shapes) == 1 else None
    if shape is None:
        return None
    if isinstance(shape, dict):
        return {name: _float_spec(each) for name, each in shape.items()}
    if isinstance(shape, (list, tuple)) and any(isinstance(n, (list, tuple)) for n in shape):
        return type(shape)(_float_spec(each) for each in shape)
    return _float_spec(shape)


def complete_build(model):
    """Makes the variables of layers that `build(shape)` left without any, in a model of Keras 3.

    That calls itself built then. In Keras 2, `build` calls the model. If the shape of the inputs is
    not known, a model with such layers is rejected.
    """
    if not KERAS_3 or not model.built or is_functional(model):
        return
    unbuilt = [layer.name for layer in sublayers(model) if not layer.built]
    if not unbuilt:
        return
    specs = specs_of_build(model)
    if specs is None:
        raise ValueError(
            f"{type(model).__name__} {model.name!r} is marked as built, but some of its layers are "
            f"not: {unbuilt}. Call it on a batch, as in model(x[:1]), before make_private."
        )
    blank = [tf.zeros([n or 1 for n in s.shape], s.dtype) for s in tf.nest.flatten(specs)]
    model(tf.nest.pack_sequence_as(specs, blank), training=False)


def _float_spec(shape):
    return tf.TensorSpec(shape, keras.backend.floatx())


# --- all layers of a model ---


def sublayers(model):
    """Returns all layers inside `model` (not itself), nested models and wrappers included."""
    if KERAS_3:
        # Depth first, in the order in which they were made; without a Sequential's graph of layers.
        found, seen = [], {id(model)}

        def visit(layer):
            is_graph = isinstance(layer, keras.Sequential)
            hidden = getattr(layer, "_functional", None) if is_graph else None
            for inner in layer._layers:
                if inner is not hidden and id(inner) not in seen:
                    seen.add(id(inner))
                    found.append(inner)
                    visit(inner)

        visit(model)
        return found
    return list(model._flatten_layers(include_self=False))


_MODULES = (tf.Module, keras.layers.Layer, keras.metrics.Metric, keras.optimizers.Optimizer)


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
        if isinstance(value, _MODULES):
            found.append(value)
            waiting += vars(value).values()
        else:
            waiting += _held_in(value)
    return found


def _held_in(value):
    """The elements of a list, tuple, dict or similar; nothing for anything else."""
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
        return raw(list(layer.weights))
    inner = {id(raw(w)) for sub in sublayers(layer) for w in sub.weights}
    return [w for w in raw(list(layer.weights)) if id(w) not in inner]


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
            numbers.setdefault(id(variable), number)
    return [numbers.setdefault(id(v), -1 - i) for i, v in enumerate(raw(list(variables)))]


def computes_in_half(model):
    """Whether any layer inside `model` computes in float16."""
    return any(layer.compute_dtype == "float16" for layer in sublayers(model))


# --- nodes of a graph of layers ---


def number_of_calls(layer):
    """Returns how many times a layer was called to build graphs of layers."""
    return len(_nodes(layer))


def _nodes(layer):
    return layer._inbound_nodes if KERAS_3 else layer.inbound_nodes


def _node_of(tensor):
    if not KERAS_3:
        return tensor.node
    history = tensor._keras_history
    return history.operation._inbound_nodes[history.node_index]


def _inputs_of(node):
    return node.input_tensors if KERAS_3 else node.keras_inputs


def _options_of(node):
    return node.arguments.kwargs if KERAS_3 else node.call_kwargs


def _layers_of(node):
    """The layer of a node and those inside; nothing for an operation of `keras.ops`."""
    layer = node.operation if KERAS_3 else node.layer
    return (layer, *sublayers(layer)) if isinstance(layer, keras.layers.Layer) else ()


def _only_output(node):
    """The one tensor that a node gives; None if there are several, or a structure of them."""
    if KERAS_3:
        return node.outputs[0] if len(node.outputs) == 1 else None
    return None if isinstance(node.outputs, (list, tuple, dict)) else node.outputs


def layers_of_outputs(model):
    """Returns the layer that gives each output of a model, a list, with None for what is no layer.

    Those inside of models that a model ends in. An empty list if a model is not functional.
    """
    if not is_functional(model):
        return []
    outputs = _functional(model)._outputs_struct if KERAS_3 else model.outputs
    return [_innermost(_node_of(tensor)) for tensor in tf.nest.flatten(outputs)]


def _innermost(node):
    layer = next(iter(_layers_of(node)), None)
    inside = layers_of_outputs(layer) if isinstance(layer, keras.Model) else [layer]
    return inside[0] if len(inside) == 1 else None


def tensors_before(layer):
    """Returns the Keras tensors that graphs of layers call a layer on, a list."""
    return [tensor for node in _nodes(layer) for tensor in _inputs_of(node)]


def is_called_with(layer, option):
    """Returns whether graphs of layers give a layer an option, such as "mask", other than None."""
    given = [_options_of(node).get(option) for node in _nodes(layer)]
    return any(each is not None for each in tf.nest.flatten(given))


def is_always_called_in_training(layer):
    """Returns whether graphs of layers call a layer with `training=True`, in inference too."""
    return any(_options_of(node).get("training") is True for node in _nodes(layer))


def _nodes_before(node, known):
    """Returns the nodes that a node is computed from, itself included, a dict by their ids.

    Without recursion, which long graphs would exhaust. `known` is a dict, empty at first, that
    keeps what was found for the next call.
    """
    waiting = [node]
    while waiting:
        last = waiting[-1]
        missing = [n for n in last.parent_nodes if id(n) not in known]
        if id(last) in known:
            waiting.pop()
        elif missing:
            waiting += missing
        else:
            own = _Nodes({id(last): last})
            for parent in last.parent_nodes:
                own.update(known[id(parent)])
            known[id(last)] = own
            waiting.pop()
    return known[id(node)]


class _Nodes(dict):
    """Nodes by their id."""

    def __and__(self, other):
        return _Nodes((key, node) for key, node in self.items() if key in other)


# --- where residual blocks add their paths ---


def residual_additions(model):
    """Returns the `Add` layers of a functional model that add a path to one that goes around it.

    One of the inputs is computed from another (the skip path is the identity), or both from the
    output of a layer before (it has a projection); the inputs of the model do not count there. A
    list of pairs (layer, why it cannot be followed by a normalisation, or "").
    """
    before, found = {}, []
    for layer in model.layers:
        if type(layer) is not keras.layers.Add:
            continue
        for node in _nodes(layer)[:1]:
            sources = [_node_of(tensor) for tensor in _inputs_of(node)]
            if _meet(sources, before):
                found.append((layer, _hindrance(layer, node)))
    return found


def _hindrance(layer, node):
    if number_of_calls(layer) > 1:
        return (
            f"it is called {number_of_calls(layer)} times, and the calls would share one "
            "normalisation"
        )
    shapes = [tuple(tensor.shape) for tensor in _inputs_of(node)]
    if len(set(shapes)) > 1:
        return f"it adds paths of unequal shapes {shapes}"
    return ""


def _meet(sources, before):
    for i, one in enumerate(sources):
        for other in sources[i + 1 :]:
            first, second = _nodes_before(one, before), _nodes_before(other, before)
            if id(one) in second or id(other) in first:
                return True
            if any(not node.is_input for node in (first & second).values()):
                return True
    return False


# --- a graph of layers, cut in two ---


def cut_in_two(model, is_above):
    """Cuts a model where as much as possible lies below the cut, seen from the outputs.

    The model is built, Sequential or functional, and has one input and one output; `is_above` says
    of a layer whether it must lie above the cut. Returns (below, above), which share their layers
    with the model: `above(below(x))` is `model(x)`. A model that is a layer of this one is cut too,
    where the cut lies in it. A layer with weights is on one side. None if no single tensor but the
    input has all these layers above it.
    """
    end = _node_of(model.outputs[0])
    known = {}
    nodes = _nodes_before(end, known)
    above = {id(n) for n in nodes.values() if any(map(is_above, _layers_of(n)))}
    places = [n for n in nodes.values() if _can_be_cut_at(n, nodes, above, known)]
    place = max(places, key=lambda n: len(_nodes_before(n, known)))
    further = _within_the_next_model(place, nodes, end, is_above)
    if further is not None:
        return _joined(model, place, *further)
    if place.is_input or place is end:
        return None
    return (
        keras.Model(model.inputs[0], _only_output(place), name=f"{model.name}_below"),
        keras.Model(_only_output(place), model.outputs[0], name=f"{model.name}_above"),
    )


def _can_be_cut_at(place, nodes, above, known):
    """Whether all that is not computed before a node is computed from its one output alone."""
    below = _nodes_before(place, known)
    if _only_output(place) is None or not above.isdisjoint(below):
        return False
    rest = [node for key, node in nodes.items() if key not in below]
    from_elsewhere = any(
        id(parent) in below and parent is not place for node in rest for parent in node.parent_nodes
    )
    with_weights = {id(x) for node in rest if _has_weights(node) for x in _layers_of(node)[:1]}
    shared = {id(x) for node in below.values() for x in _layers_of(node)[:1]} & with_weights
    return not from_elsewhere and not shared


def _has_weights(node):
    return any(own_weights(layer) for layer in _layers_of(node))


def _within_the_next_model(place, nodes, end, is_above):
    """Triple (node, below, above) of the model that alone comes after a cut, cut too, or None."""
    after = [node for node in nodes.values() if any(p is place for p in node.parent_nodes)]
    if len(after) != 1:
        return None
    (node,) = after
    inner = next(iter(_layers_of(node)), None)
    if (
        inner is None
        or not is_functional(inner)
        or len(inner.inputs) != 1
        or len(inner.outputs) != 1
    ):
        return None
    cut = cut_in_two(inner, is_above)
    return None if cut is None else (node, *cut)


def _joined(model, place, node, below, above):
    """The two halves of a model, cut inside the model that a node calls."""
    between = keras.Input(above.inputs[0].shape[1:], dtype=above.inputs[0].dtype)
    options = {k: v for k, v in _options_of(node).items() if isinstance(v, bool)}
    x = above(between, **options)
    if node is not _node_of(model.outputs[0]):
        x = keras.Model(_only_output(node), model.outputs[0], name=f"{model.name}_end")(x)
    return (
        keras.Model(model.inputs[0], below(_only_output(place)), name=f"{model.name}_below"),
        keras.Model(between, x, name=f"{model.name}_above"),
    )
