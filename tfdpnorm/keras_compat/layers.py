"""What single Keras layers keep to themselves: their calls, losses, masks, random numbers.

Version-bound: `keras.backend.learning_phase`; Keras 3 has another `backend`. Keras 2 has several
classes of batch normalisation besides `keras.layers.BatchNormalization` (of Keras 1, and
synchronised, under `experimental`), whose common base has no public name.

Private parts of Keras 2:

- `base_layer_utils.call_context` and `autocast_variable`, which say whether a call is part of
  training and what variables are cast to, to the layers inside as well.
- A layer's lists `_losses` (symbolic, from the construction of a functional model) and
  `_eager_losses` (from calls), `_clear_losses`, and its list `_metrics`. The public `layer.losses`
  mixes both with the losses of weight regularizers, nothing public removes a loss, and the public
  `layer.metrics` mixes added metrics with those of the attributes and of inner layers.
- The `_keras_mask` of a tensor.
- The `_random_generator` of a layer (`keras.src.backend.RandomGenerator`) and its `_rng_type`,
  `_seed` and `_built`. Keras lets a seed be given to the constructor only, and by default draws by
  kernels whose counters nobody can read or set.
- `RNN._process_inputs`, `RNN._maybe_reset_cell_dropout_mask` and the switch `_could_use_gpu_kernel`
  of LSTM and GRU. A gradient rule runs the steps itself and must begin as Keras does; publicly a
  layer runs as a whole only.
- `_always_use_reshape` of TimeDistributed; and of any layer `_autocast` (whether it casts its
  inputs), `_call_spec` (which arguments its call takes) and `_initial_weights` (those given as
  `weights=[...]`). No public way makes a wrapper take exactly the call arguments of the layer
  inside it.
- `_lookup_layer` of TextVectorization and `_has_input_vocabulary` of the lookup layers. Publicly a
  vocabulary that was passed in looks like one that `adapt()` found.
"""

import contextlib
import importlib
import inspect

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.exchange import exchanged, exchanged_method

# --- calling a layer as Keras called it ---

_SOURCE = keras.layers.Layer.__module__.partition(".engine.")[0]  # keras.src, or tf_keras.src
_base_layer_utils = importlib.import_module(f"{_SOURCE}.engine.base_layer_utils")
_autocast_variable = importlib.import_module(f"{_SOURCE}.mixed_precision.autocast_variable")


def said_or_by_default(training):
    """Returns whether a call is training, where None leaves it to Keras.

    Args:
        training: A bool, a tensor, or None.
    """
    return keras.backend.learning_phase() if training is None else training


def context_of_call():
    """What Keras says, in the call of a layer that runs, to the layers inside: for `as_called`.

    Returns:
        Dict: whether this is training, a bool, a tensor or None; with newer packages, whatever else
        layers ask for.
    """
    context = _base_layer_utils.call_context()
    if hasattr(context, "call_context_args"):  # tf_keras 2.21
        return {"call_context_args": dict(context.call_context_args)}
    return {"training": context.training}


@contextlib.contextmanager
def as_called(layer, inputs, context):
    """Context in which layers inside of `layer` find what they found when Keras called it.

    Args:
        layer: The layer.
        inputs: What it is called with.
        context: What `context_of_call` gave then.
    """
    calls = _base_layer_utils.call_context()
    with (
        calls.enter(layer=layer, inputs=inputs, build_graph=True, **context),
        _autocast_variable.enable_auto_cast_variables(layer._compute_dtype_object),
    ):
        yield


# --- losses and metrics that calls add ---


def has_added_losses(layer):
    """Whether `layer` itself, not a layer inside it, called `add_loss`.

    Losses of weight regularizers do not count.
    """
    return bool(getattr(layer, "_losses", None) or getattr(layer, "_eager_losses", None))


def has_added_metrics(layer):
    """Whether `layer` itself, not a layer inside it, called `add_metric`.

    Metrics that are attributes of a layer do not count.
    """
    own = [x for name, value in vars(layer).items() if name != "_metrics" for x in _parts(value)]
    return any(all(m is not x for x in own) for m in getattr(layer, "_metrics", None) or ())


def _parts(value):
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, (list, tuple)) else [value]


def clear_losses(layer):
    """Removes the losses that calls of `layer`, and of all inside it, added."""
    layer._clear_losses()


@contextlib.contextmanager
def losses_put_back(layers):
    """Context after which the added losses of `layers` are those from before."""
    before = [(list(layer._losses), list(layer._eager_losses)) for layer in layers]
    try:
        yield
    finally:
        for layer, (symbolic, eager) in zip(layers, before, strict=True):
            layer._losses[:], layer._eager_losses[:] = symbolic, eager


# --- masks ---


def keras_mask(tensor):
    """Returns the mask that a tensor carries, [rows, ...], or None."""
    return getattr(tensor, "_keras_mask", None)


def is_called_with_a_mask(layer):
    """Whether graphs of layers call a layer on a tensor that carries a mask."""
    tensors = [tensor for node in layer.inbound_nodes for tensor in node.keras_inputs]
    return any(keras_mask(tensor) is not None for tensor in tensors)


def with_keras_mask(tensor, mask):
    """Returns the tensor carrying a mask, or none if that is None."""
    tensor = tf.identity(tensor)
    tensor._keras_mask = mask
    return tensor


# --- random numbers ---


@contextlib.contextmanager
def repeating(layers, seed_name):
    """Context in which random layers draw the same numbers at every call.

    Args:
        layers: Keras layers, random or not.
        seed_name: Name of the variables that the layers take their seeds from, by which a graph
            that reads them is recognised.
    """
    sources = _keras_sources(layers)
    before = [dict(vars(source)) for source in sources]
    try:
        for number, source in enumerate(sources):
            # Not by setattr(), which would make variables part of the layer's checkpoints.
            vars(source).update(
                # Stateless: the iterations of a loop could draw from a stream in any order.
                _rng_type=source.RNG_STATELESS,
                _seed=tf.Variable(number, trainable=False, name=seed_name),
                _built=True,
            )
        yield
    finally:
        for source, attributes in zip(sources, before, strict=True):
            vars(source).clear()
            vars(source).update(attributes)


def _keras_sources(layers):
    """Returns the list of what Keras' random layers, and cells, draw from, each once.

    Args:
        layers: Keras layers, random or not.
    """
    found = [x._random_generator for x in layers if hasattr(x, "_random_generator")]
    return list({id(source): source for source in found}.values())


# --- batch normalisation ---

BATCH_NORMALIZATIONS = tuple(
    base
    for base in keras.layers.BatchNormalization.__mro__
    if base.__name__.startswith("BatchNormalization")
)

# Those that can be made, by their exact types.
ALL_BATCH_NORMALIZATIONS = tuple(
    dict.fromkeys(
        (
            keras.layers.BatchNormalization,
            keras.layers.experimental.SyncBatchNormalization,
            tf.compat.v1.keras.layers.BatchNormalization,
        )
    )
)


# --- recurrent layers ---


def inputs_and_states(layer, inputs, initial_state):
    """Returns (inputs, initial states) as `layer` sorts them out of what it is called with."""
    inputs, states, _ = layer._process_inputs(inputs, initial_state, None)
    return inputs, states


def looped(step, inputs, states, mask):
    """Runs `step` on each of the steps of `inputs`, [rows, T, ...], in a loop of the graph.

    Args:
        step: Function (input [rows, ...], states) -> (outputs, states).
        inputs: As above.
        states: List of the first states.
        mask: bool [rows, T]: steps that leave the states as they were; or None.

    Returns:
        Pair (outputs, each [rows, T, ...], list of the last states).
    """
    _, outputs, states = keras.backend.rnn(step, inputs, states, mask=mask)
    return outputs, list(states)


def product(x, kernel):
    """Returns x [..., n] times kernel [n, m] as Keras' cells multiply, to the last bit."""
    return keras.backend.dot(x, kernel)


def dropout_masks(layer, inputs, h, training, gates):
    """Draws the dropout masks of one call of `layer`, as and where Keras draws them.

    Keras' fused kernels have one mask for each step, the others one for all steps.

    Args:
        layer: SimpleRNN, LSTM or GRU.
        inputs: [rows, T, d], or [T, rows, d] for `time_major`.
        h: [rows, units], the first state.
        training: Whether this is training: a bool, a tensor or None.
        gates: Number of gates of the cell.

    Returns:
        Pair (masks for the inputs, masks for h), each None or a list with one mask for all gates
        or one for each.
    """
    cell = layer.cell
    if getattr(layer, "_could_use_gpu_kernel", False):
        layer.reset_dropout_mask()
        masks = layer.get_dropout_mask_for_cell(inputs, training, count=gates)
        return masks and masks[:1], None
    layer._maybe_reset_cell_dropout_mask(cell)
    step = inputs[0] if layer.time_major else inputs[:, 0]
    masks = cell.get_dropout_mask_for_cell(step, training, count=gates)
    recurrent_masks = cell.get_recurrent_dropout_mask_for_cell(h, training, count=gates)
    if masks is not None:
        masks = tf.nest.flatten(masks)
        used = masks[:1] if getattr(cell, "implementation", 1) == 2 else masks
        masks = [tf.expand_dims(m, 0 if layer.time_major else 1) for m in used]
    if recurrent_masks is not None:
        recurrent_masks = tf.nest.flatten(recurrent_masks)
    return masks, recurrent_masks


# --- wrappers ---


def all_steps_at_once(time_distributed):
    """Context in which TimeDistributed runs its layer once, on [rows * steps, ...].

    Where the number of rows is known, Keras may loop over the steps instead.
    """
    return exchanged(time_distributed, _always_use_reshape=True)


@contextlib.contextmanager
def one_call_inside(time_distributed):
    """Context in which each call of a TimeDistributed is one call of the layer inside it.

    A model inside it would be called once more for its mask. As Keras does where the number of rows
    is known, the mask is that of the input.
    """

    def compute_mask(inputs, mask=None):
        del inputs
        return mask

    with (
        all_steps_at_once(time_distributed),
        exchanged_method(time_distributed, "compute_mask", compute_mask),
    ):
        yield


def call_like(wrapper, layer):
    """Makes a wrapper take the arguments of `layer`, which casts its inputs itself, or does not."""
    wrapper._autocast = False
    wrapper._call_spec = layer._call_spec


def set_initial_weights(layer):
    """Gives a built `layer` the weights that were passed to its constructor, if any were.

    Keras does so at the layer's first call, and only if that call builds it.
    """
    initial = getattr(layer, "_initial_weights", None)
    if initial is not None:
        with tf.init_scope():
            layer.set_weights(initial)
        layer._initial_weights = None


def positional_names(layer):
    """Returns the names of a layer's call arguments in the order in which `layer(...)` takes them.

    Some layers order the arguments of `__call__` otherwise than those of `call`.
    """
    for method in (layer.__call__, layer.call):
        kinds = [(p.name, p.kind) for p in inspect.signature(method).parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL not in dict(kinds).values():
            return [name for name, kind in kinds if kind == inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return []


# --- vocabularies ---


def inner_lookup(text_vectorization):
    """Returns the lookup layer that a TextVectorization holds."""
    return text_vectorization._lookup_layer


def has_given_vocabulary(lookup):
    """Whether a StringLookup or IntegerLookup got its vocabulary as an argument."""
    return lookup._has_input_vocabulary
