"""Internals of single Keras layers: their calls, losses, masks, random numbers.

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
  kernels whose counters no one can read or set.
- `RNN._process_inputs`, `RNN._maybe_reset_cell_dropout_mask` and the switch `_could_use_gpu_kernel`
  of LSTM and GRU. A gradient rule runs the steps itself and must begin as Keras does; publicly a
  layer runs as a whole only.
- `_always_use_reshape` of TimeDistributed (of Keras 3: the arguments with which its `call` calls
  that of the layer inside); and of any layer `_autocast` (whether it casts its
  inputs), `_call_spec` (which arguments its call takes) and `_initial_weights` (those given as
  `weights=[...]`). No public way makes a wrapper take exactly the call arguments of the layer
  inside it.
- `_lookup_layer` of TextVectorization and `_has_input_vocabulary` of the lookup layers, of Keras 3
  as well. Publicly a vocabulary that was passed in looks like one that `adapt()` found.

Private parts of Keras 3:

- `CallContext` and the global attribute "current_call_ctx", which say whether a call is part of
  training to the layers inside it, and `AutocastScope`. A gradient rule calls these layers itself,
  and publicly a call begins with its own context.
- `compute_output_spec` of the backend and `rnn`. The public `compute_output_spec` is a layer's, and
  does not take a function; the loop over steps is part of the public layers alone.
- `_losses` and `_loss_ids` of a layer, `_clear_losses` and `_get_own_losses`, for the same reasons.
- `_seed_generators` of a layer, and `state` of each: what it draws next. Publicly a seed is given
  once, to the constructor.
- `_maybe_reset_dropout_masks` of recurrent layers, for the reason above, and `_call_has_...`,
  `_convert_input_args` and the like in place of `_call_spec`.
"""

import contextlib
import functools
import inspect

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.exchange import exchanged, exchanged_method
from tfdpnorm.keras_compat.models import is_called_with, sublayers, tensors_before
from tfdpnorm.keras_compat.variables import KERAS_3, raw

# --- calling a layer as Keras called it ---

if KERAS_3:
    from keras.src import backend as _backend
    from keras.src.backend.common import global_state as _global_state
    from keras.src.layers.layer import CallContext as _CallContext
else:
    from keras.src.engine import base_layer_utils as _base_layer_utils
    from keras.src.mixed_precision import autocast_variable as _autocast_variable


def said_or_by_default(training):
    """Returns whether a call is training, a bool or a tensor: Keras decides if it is None."""
    if training is not None:
        return training
    if not KERAS_3:
        return keras.backend.learning_phase()
    context = _global_state.get_global_attribute("current_call_ctx")
    return bool(getattr(context, "training", None))


def context_of_call():
    """What Keras says, in the call of a layer that runs, to the layers inside: for `as_called`.

    A dict: whether this is training, a bool, a tensor or None; with Keras 3, whatever else layers
    ask for.
    """
    if KERAS_3:
        context = _global_state.get_global_attribute("current_call_ctx")
        known = {} if context is None else vars(context)
        return {name: value for name, value in known.items() if name != "entry_layer"}
    return {"training": _base_layer_utils.call_context().training}


@contextlib.contextmanager
def as_called(layer, inputs, context):
    """Context in which layers inside of `layer` find the `context` that `context_of_call` gave."""
    if KERAS_3:
        with _as_called_by_keras_3(layer, context):
            yield
        return
    calls = _base_layer_utils.call_context()
    with (
        calls.enter(layer=layer, inputs=inputs, build_graph=True, **context),
        _autocast_variable.enable_auto_cast_variables(layer._compute_dtype_object),
    ):
        yield


@contextlib.contextmanager
def _as_called_by_keras_3(layer, context):
    before = _global_state.get_global_attribute("current_call_ctx")
    ours = _CallContext(entry_layer=layer)
    vars(ours).update(context)
    is_mixed = layer.compute_dtype != layer.variable_dtype
    scope = _backend.AutocastScope(layer.compute_dtype) if is_mixed else contextlib.nullcontext()
    _global_state.set_global_attribute("current_call_ctx", ours)
    try:
        with scope:
            yield
    finally:
        _global_state.set_global_attribute("current_call_ctx", before)


# --- losses and metrics that calls add ---


def has_added_losses(layer):
    """Whether `layer` itself, not one inside it, called `add_loss`; regularizers do not count."""
    return bool(getattr(layer, "_losses", None) or getattr(layer, "_eager_losses", None))


def has_added_metrics(layer):
    """Whether `layer` itself, not one inside it, called `add_metric`; attributes do not count."""
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
    names = ("_losses", "_loss_ids") if KERAS_3 else ("_losses", "_eager_losses")
    before = [[type(kept)(kept) for kept in _of(layer, names)] for layer in layers]
    try:
        yield
    finally:
        for layer, values in zip(layers, before, strict=True):
            for kept, value in zip(_of(layer, names), values, strict=True):
                kept.clear()
                (kept.update if isinstance(kept, set) else kept.extend)(value)


def _of(layer, names):
    return [getattr(layer, name) for name in names]


# --- masks ---


def keras_mask(tensor):
    """Returns the mask that a tensor carries, [rows, ...], or None."""
    return getattr(tensor, "_keras_mask", None)


def is_called_with_a_mask(layer):
    """Whether graphs of layers call a layer on a tensor that carries a mask, or with a mask."""
    carried = any(keras_mask(tensor) is not None for tensor in tensors_before(layer))
    return carried or is_called_with(layer, "mask")


def with_keras_mask(tensor, mask):
    """Returns the tensor carrying a mask, or none if that is None."""
    tensor = tf.identity(tensor)
    tensor._keras_mask = mask
    return tensor


# --- random numbers ---


@contextlib.contextmanager
def repeating(layers):
    """Context in which those of the layers that are random draw the same numbers at every call."""
    if KERAS_3:
        with _repeating_seeds(layers):
            yield
        return
    # Those of Keras' random layers and cells, each once.
    found = [x._random_generator for x in layers if hasattr(x, "_random_generator")]
    sources = list({id(source): source for source in found}.values())
    before = [dict(vars(source)) for source in sources]
    try:
        for number, source in enumerate(sources):
            # Not by setattr(), which would make variables part of the layer's checkpoints.
            vars(source).update(
                # Stateless: the iterations of a loop could draw from a stream in any order.
                _rng_type=source.RNG_STATELESS,
                _seed=tf.Variable(number, trainable=False),
                _built=True,
            )
        yield
    finally:
        for source, attributes in zip(sources, before, strict=True):
            vars(source).clear()
            vars(source).update(attributes)


@contextlib.contextmanager
def _repeating_seeds(layers):
    """As `repeating`: each generator of seeds gives one seed, whose words are in a variable."""
    with contextlib.ExitStack() as stack:
        for number, source in enumerate(_seed_generators(layers)):
            seed = tf.Variable([number, 0], dtype=tf.int32, trainable=False)

            def constant(ordered=True, seed=seed, source=source):
                del ordered
                return tf.cast(seed, source.state.dtype)

            stack.enter_context(exchanged(source, next=constant))
        yield


def _seed_generators(layers):
    """Returns the list of the generators of seeds that layers of Keras 3 hold, each once."""
    held = [source for layer in layers for source in layer._seed_generators]
    return list({id(source): source for source in held}.values())


def seed_states(model):
    """Returns the variables by which layers of Keras 3 know what they draw next, a list."""
    layers = (model, *sublayers(model)) if KERAS_3 else ()
    return raw([source.state for source in _seed_generators(layers)])


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
            *(
                ()
                if KERAS_3
                else (
                    keras.layers.experimental.SyncBatchNormalization,
                    tf.compat.v1.keras.layers.BatchNormalization,
                )
            ),
        )
    )
)


# --- recurrent layers ---


def inputs_and_states(layer, inputs, initial_state):
    """Returns (inputs, initial states) as `layer` finds them in its arguments."""
    if KERAS_3:
        if initial_state is None:
            initial_state = layer.states if layer.stateful else None
        if initial_state is None:
            initial_state = layer.get_initial_state(batch_size=tf.shape(inputs)[0])
        states = list(initial_state) if tf.nest.is_nested(initial_state) else [initial_state]
        return inputs, [tf.cast(s, layer.cell.compute_dtype) for s in states]
    inputs, states, _ = layer._process_inputs(inputs, initial_state, None)
    return inputs, states


def takes_steps_first(layer):
    """Whether a recurrent layer takes [T, rows, d]; no layer of Keras 3 does."""
    return getattr(layer, "time_major", False)


def looped(step, inputs, states, mask):
    """Runs `step` on each of the steps of `inputs`, [rows, T, ...], in a loop of the graph.

    It takes (input [rows, ...], list of states) and returns (outputs, states). Where `mask`, bool
    [rows, T] or None, is False, steps leave the states as they were. Returns the outputs, each
    [rows, T, ...], and the list of the last states.
    """
    run = _backend.rnn if KERAS_3 else keras.backend.rnn
    _, outputs, states = run(step, inputs, states, mask=mask)
    return outputs, list(states)


def product(x, kernel):
    """Returns x [..., n] times kernel [n, m] as Keras' cells multiply, to the last bit."""
    return keras.ops.matmul(x, kernel) if KERAS_3 else keras.backend.dot(x, kernel)


def dropout_masks(layer, inputs, h, training, gates):
    """Draws the dropout masks of one call of a recurrent layer, as and where Keras draws them.

    `inputs` are [rows, T, d], or [T, rows, d] for `time_major`; `h` is the first state, [rows,
    units]. Returns the masks for the inputs and those for h, each None or a list with one mask for
    all gates or one for each. Keras' fused kernels have one mask for each step, the others one for
    all steps.
    """
    cell = layer.cell
    if KERAS_3:
        if not said_or_by_default(training):
            return None, None
        drawn = (
            (cell.dropout, cell.get_dropout_mask, inputs[:, 0]),
            (cell.recurrent_dropout, cell.get_recurrent_dropout_mask, h),
        )
        masks, recurrent_masks = (
            tf.nest.flatten(draw(of)) if 0 < rate < 1 else None for rate, draw, of in drawn
        )
        layer._maybe_reset_dropout_masks(cell)  # What is drawn is of this call, and of its graph.
        return masks and [tf.expand_dims(m, 1) for m in masks], recurrent_masks
    if getattr(layer, "_could_use_gpu_kernel", False):
        layer.reset_dropout_mask()
        masks = layer.get_dropout_mask_for_cell(inputs, training, count=gates)
        return masks and masks[:1], None
    layer._maybe_reset_cell_dropout_mask(cell)
    step = inputs[0] if takes_steps_first(layer) else inputs[:, 0]
    masks = cell.get_dropout_mask_for_cell(step, training, count=gates)
    recurrent_masks = cell.get_recurrent_dropout_mask_for_cell(h, training, count=gates)
    if masks is not None:
        masks = tf.nest.flatten(masks)
        used = masks[:1] if getattr(cell, "implementation", 1) == 2 else masks
        masks = [tf.expand_dims(m, 0 if takes_steps_first(layer) else 1) for m in used]
    if recurrent_masks is not None:
        recurrent_masks = tf.nest.flatten(recurrent_masks)
    return masks, recurrent_masks


# --- names that differ ---


def axes_of(normalization):
    """Returns the axes of a normalisation layer, a list; Keras 3 has a number for one of them."""
    axis = normalization.axis
    return list(axis) if isinstance(axis, (list, tuple)) else [axis]


def not_equal(x, value):
    """Whether the numbers of a Keras tensor are other than a value."""
    return keras.ops.not_equal(x, value) if KERAS_3 else tf.not_equal(x, value)


def rank_of_output(einsum_dense):
    """Returns the rank of a built EinsumDense's output, rows included."""
    if not KERAS_3:
        return len(einsum_dense.full_output_shape)
    return len(einsum_dense.compute_output_shape(einsum_dense._build_shapes_dict["input_shape"]))


def depthwise_kernel(layer):
    """Returns the kernel of a DepthwiseConv layer."""
    kernel = getattr(layer, "depthwise_kernel", None)
    return layer.kernel if kernel is None else kernel


def ignores_dilation(transposed):
    """Whether a transposed convolution runs without its dilation, as Keras 2 does in 3D."""
    return not KERAS_3 and transposed.rank == 3


# --- weights that are made of others ---


def is_quantized(layer):
    """Whether a layer runs another method than `call`, on rounded weights."""
    return getattr(layer, "quantization_mode", None) is not None


def has_low_rank_update(layer):
    """Whether `kernel` or `embeddings` of a layer is a sum with a product of other weights."""
    return bool(getattr(layer, "lora_enabled", False))


def is_rematerialized(layer):
    """Whether the call of a layer is run once more in the backward pass."""
    return bool(getattr(layer, "_remat_mode", None))


# --- wrappers ---


@contextlib.contextmanager
def all_steps_at_once(time_distributed, call=None):
    """Context in which TimeDistributed runs its layer once, on [rows * steps, ...].

    Where the number of rows is known, Keras may loop over the steps instead; Keras 3 does where
    that of steps is. Gives the method to run in place of `call`, the layer's own.
    """
    if not KERAS_3:
        with exchanged(time_distributed, _always_use_reshape=True):
            yield call
        return
    if call is None and "call" in vars(time_distributed):  # a rule's, which does the same
        yield time_distributed.call
        return
    at_once = functools.partial(_called_on_all_steps, time_distributed)
    with exchanged_method(time_distributed, "call", at_once):
        yield at_once


def _called_on_all_steps(wrapper, inputs, training=None, mask=None):
    """The result of Keras 3's `call`, with the steps of each row in sequence."""

    def merged(x):
        return tf.reshape(x, tf.concat([[-1], tf.shape(x)[2:]], 0))

    def apart(x):
        return tf.reshape(x, tf.concat([[-1, steps], tf.shape(x)[1:]], 0))

    layer = wrapper.layer
    steps = tf.shape(inputs)[1] if inputs.shape[1] is None else inputs.shape[1]
    options = {"training": training} if layer._call_has_training_arg else {}
    if mask is not None and layer._call_has_mask_arg:
        options["mask"] = merged(mask)
    return tf.nest.map_structure(apart, layer.call(merged(inputs), **options))


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
    if KERAS_3:
        wrapper.autocast = wrapper._convert_input_args = False
        wrapper._allow_non_tensor_positional_args = True
        for name, value in vars(layer).items():
            if name.startswith("_call_"):
                setattr(wrapper, name, value)
        return
    wrapper._autocast = False
    wrapper._call_spec = layer._call_spec


class OutputsOfTheLayerInside:
    """A wrapper that gives what the layer inside it gives, and builds it."""

    if KERAS_3:

        def build(self, input_shape=None):
            names = inspect.signature(self.layer.build).parameters.values()
            needed = [name for name in names if name.default is inspect.Parameter.empty]
            if len(needed) < 2:  # others are built when they are called
                super().build(input_shape)

        def compute_output_spec(self, *args, **kwargs):
            if not all(layer.built for layer in (self.layer, *sublayers(self.layer))):
                build_by_a_call(self.layer, *args, **kwargs)
            return _backend.compute_output_spec(self.call, *args, **kwargs)

    def compute_output_shape(self, *args, **kwargs):
        return self.layer.compute_output_shape(*args, **kwargs)


def build_by_a_call(layer, *args, **kwargs):
    """Builds a layer and all inside it, by a call that is traced and never run."""
    if KERAS_3:
        # Of others: an attention takes the masks off the tensors that it is given.
        args, kwargs = tf.nest.map_structure(_alike, (args, kwargs))
        _backend.compute_output_spec(layer, *args, **kwargs)
    else:
        tf.function(lambda: layer(*args, **kwargs)).get_concrete_function()


def _alike(x):
    if not (tf.is_tensor(x) or isinstance(x, keras.KerasTensor)):
        return x
    return keras.KerasTensor(tuple(x.shape), keras.backend.standardize_dtype(x.dtype))


class SavesAllVariables:
    """A layer of a class of Keras with variables of its own, which Keras 3 would not save."""

    def save_own_variables(self, store):
        keras.layers.Layer.save_own_variables(self, store)

    def load_own_variables(self, store):
        keras.layers.Layer.load_own_variables(self, store)


class LossOfWeights:
    """A layer with a loss of its weights, which is asked for whenever its losses are."""

    _loss_of_weights = None

    def add_loss_of_weights(self, function):
        """Adds a loss as Keras' regularisers are: a function without arguments, of the weights."""
        if KERAS_3:
            self._loss_of_weights = function
        else:
            self.add_loss(function)

    def _get_own_losses(self):
        # Not `_get_regularization_losses`, which Keras 3 asks of the outermost model alone.
        losses = super()._get_own_losses()
        return losses if self._loss_of_weights is None else [*losses, self._loss_of_weights()]


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


def has_boundaries_from_data(discretization):
    """Whether a Discretization got boundaries from `adapt()`, before it was saved for one."""
    summary = getattr(discretization, "summary", None)  # layers with constants have none
    if summary is not None and int(tf.size(summary)) > 0:
        return True
    # Keras 3 does not save the summary; by the constructor a layer has one of these only.
    both = (discretization.num_bins, discretization.bin_boundaries)
    return KERAS_3 and all(each is not None for each in both)


def has_given_vocabulary(lookup):
    """Whether a StringLookup or IntegerLookup got its vocabulary as an argument."""
    return lookup._has_input_vocabulary
