"""The graph that is being traced, and what a traced function holds.

Private parts: the name of the graph in which Keras 2 infers shapes ("..._scratch_graph"), and
`in_symbolic_scope` of Keras 3, since nothing public tells such a call of a layer from others; the
`_handle_data` of resource tensors, which alone says what kind of resource a handle is of. AutoGraph
keeps to itself by which status Keras decides whether to convert the `call` of a layer.
The context of TensorFlow, which alone knows what `tf.debugging` has added to every operation.
Version-bound: `tf.autograph.experimental`, `tf.__internal__.autograph`, the experimental options of
Grappler and attributes of functions, and what `tf.compat.v1` keeps of graphs and their seeds.
"""

import contextlib
import functools

import tensorflow as tf
from tensorflow.python.autograph.core import ag_ctx
from tensorflow.python.eager import context

from tfdpnorm.keras_compat.variables import KERAS_3

if KERAS_3:
    from keras.src.backend.common.symbolic_scope import in_symbolic_scope

# Decorator: AutoGraph leaves the function as it is. Converting takes time, and is for user code.
as_written = tf.autograph.experimental.do_not_convert


def check_runs_eagerly():
    """Rejects a TensorFlow whose eager execution is switched off."""
    if not tf.compat.v1.executing_eagerly_outside_functions():
        raise ValueError(
            "Eager execution is switched off, by tf.compat.v1.disable_eager_execution() or "
            "disable_v2_behavior(), and Keras then makes models of another kind. Remove that call."
        )


def current_graph():
    """Returns the graph that operations are added to now."""
    return tf.compat.v1.get_default_graph()


def traced(function, specs):
    """Returns the `ConcreteFunction` of a function, traced as Keras traces a step of training.

    That is without AutoGraph, except for the code of users, which Keras itself has converted.
    `specs` has a structure of `tf.TensorSpec` for each argument.
    """

    def traced_function(*arguments):
        with _users_code():
            return function(*arguments)

    # Not inlined: its graph is prepared once, wherever it is called.
    attributes = {"_noinline": True}
    with without_op_callbacks():
        return tf.function(
            traced_function, autograph=False, experimental_attributes=attributes
        ).get_concrete_function(*specs)


@contextlib.contextmanager
def without_op_callbacks():
    """Context without what `tf.debugging` adds to every operation; gives whether there was any.

    `enable_check_numerics` stops a step at a gradient that is not finite, which counts as zero
    here; `enable_dump_debug_info` writes down the values of single examples.
    """
    now = context.context()
    callbacks = list(now.op_callbacks)
    for callback in callbacks:
        now.remove_op_callback(callback)
    try:
        yield bool(callbacks)
    finally:
        for callback in callbacks:
            now.add_op_callback(callback)


def _users_code():
    """Context in which AutoGraph converts code of users where Keras does: Keras 3 never does."""
    if KERAS_3:
        return contextlib.nullcontext()
    return ag_ctx.ControlStatusCtx(status=ag_ctx.Status.ENABLED)


def users_code_converted(function):
    """Decorator: AutoGraph leaves the function as it is, and converts code of users that it calls.

    That is what Keras itself has converted, such as the function of a loss.
    """

    @functools.wraps(function)
    def as_in_training(*args, **kwargs):
        with _users_code():
            return function(*args, **kwargs)

    return as_written(as_in_training)


def users_code(call):
    """Returns the `call` of a user's layer as Keras has it in training: converted by AutoGraph."""
    with _users_code():
        return converted(call)


def converted(function):
    """Returns a function of users as AutoGraph converts it here, if it does: as Keras has it."""
    if KERAS_3:
        return function
    return tf.__internal__.autograph.tf_convert(function, ag_ctx.control_status_ctx())


# What AutoGraph and Keras begin the errors with that they raise in place of others.
_IN_PLACE = ("in user code:", "Exception encountered when calling")


def cause_of(error):
    """Returns the error that was raised first, as it was worded.

    AutoGraph and Keras raise others in its place, which add in several lines where in the code that
    was. An error that repeats another one in words of its own is left as it is.
    """
    while str(error).startswith(_IN_PLACE) and _repeats(error, error.__context__):
        error = error.__context__
    return error


def _repeats(error, context):
    if context is None:
        return False
    inner = str(context)
    if inner.startswith("in user code:"):  # AutoGraph twice: where that was now has more lines
        inner = inner.strip().splitlines()[-1]
    inner, outer = (" ".join(text.split()) for text in (inner, str(error)))  # it indents lines
    return inner in outer


def operation_count():
    """Returns how many operations the graph that is being traced has; 0 outside of any."""
    return 0 if tf.executing_eagerly() else len(current_graph().get_operations())


def tensors_since(count):
    """Returns the tensors of the graph that were made since it had `count` operations."""
    if tf.executing_eagerly():
        return []
    return [t for op in current_graph().get_operations()[count:] for t in op.outputs]


def read_since(count, arguments):
    """Returns the tensors, made before, that operations read since the graph had `count` of them.

    Tensors in the structure `arguments`, constants and variables are not counted.
    """
    if tf.executing_eagerly():
        return []
    graph = current_graph()
    since = graph.get_operations()[count:]
    new = {op.name for op in since}
    # What comes from outside of a function enters it by a placeholder.
    outside = {inside.op.name: given for given, inside in getattr(graph, "captures", ())}
    found = [outside.get(op.name) for op in since]
    found += [outside.get(t.op.name, t) for op in since for t in op.inputs if t.op.name not in new]
    given = {id(t) for t in tf.nest.flatten(arguments, expand_composites=True)}
    read = [t for t in found if tf.is_symbolic_tensor(t) and id(t) not in given]
    return [t for t in read if t.dtype != tf.resource and t.op.type != "Const"]


def computed_from_arguments(tensors):
    """Returns for each tensor whether it is computed from arguments of the traced function.

    It is not if it comes from constants, variables, what the function captures, or shapes alone.
    """
    graph = current_graph()
    captured = {inside.op.name for _, inside in getattr(graph, "captures", ())}
    found = {}  # by name of operation

    def comes_from_arguments(first):
        waiting = [first]
        while waiting:
            op = waiting[-1]
            inputs = [] if op.type in _OF_SHAPES else [t.op for t in op.inputs]
            unknown = [x for x in inputs if x.name not in found]
            if unknown:
                waiting += unknown
                continue
            is_argument = op.type == "Placeholder" and op.name not in captured
            found[waiting.pop().name] = is_argument or any(found[x.name] for x in inputs)
        return found[first.name]

    return [
        tf.is_symbolic_tensor(t) and t.graph is graph and comes_from_arguments(t.op)
        for t in tensors
    ]


def read_past(first, last, variables, passed, cut):
    """Returns tensors by which later operations depend on `variables`, but for those in `passed`.

    The operations that read the variables are numbered from `first` up to `last`. Gradients have to
    pass: they do not by integers, for instance, nor, if `cut`, by `tf.stop_gradient` there. Nothing
    in eager mode.
    """
    if tf.executing_eagerly():
        return []
    operations = current_graph().get_operations()
    handles = {id(variable.handle) for variable in variables}
    # Within a function, the handle of a variable is a placeholder.
    captures = getattr(current_graph(), "captures", ())
    handles |= {id(inside) for outside, inside in captures if id(outside) in handles}
    may_pass, found = {t.name for t in passed}, set()
    for op in operations[first:last]:
        reads = any(id(t) in handles or t.name in found for t in op.inputs)
        if reads and not (cut and op.type == "StopGradient"):
            found |= {t.name for t in op.outputs if _has_gradient(t)} - may_pass
    return [
        tensor
        for op in operations[last:]
        for tensor in op.inputs
        if tensor.name in found
        and op.type != "StopGradient"
        and any(map(_has_gradient, op.outputs))
    ]


_OF_SHAPES = ("Shape", "ShapeN", "Size", "Rank")


def _has_gradient(tensor):
    return not (tensor.dtype.is_integer or tensor.dtype.is_bool or tensor.dtype == tf.string)


def only_infers_shapes(graph):
    """Whether `graph` is one in which Keras runs layers only to learn shapes.

    A Sequential model, for one, rebuilds itself so within an ordinary call.
    """
    return in_symbolic_scope() if KERAS_3 else graph.name.endswith("_scratch_graph")


def captures_symbols(function):
    """Whether a `ConcreteFunction` reads a tensor of a graph that it is not called in."""
    return any(tf.is_symbolic_tensor(outside) for outside, _ in function.graph.captures)


def captured_variables(function):
    """Returns pairs (handle, dtype) of all variables that a `ConcreteFunction` reads or writes."""
    found = {}
    for handle in function.captured_inputs:
        if handle.dtype == tf.resource and handle._handle_data is not None:
            data = handle._handle_data
            # Tables and the like have handles too, without the type of a value.
            if data.is_set and data.shape_and_type:
                found[id(handle)] = (handle, tf.as_dtype(data.shape_and_type[0].dtype))
    return list(found.values())


@contextlib.contextmanager
def unoptimized():
    """Context in which graphs run as they are traced: optimising takes longer than a few runs."""
    option = "disable_meta_optimizer"
    given = tf.config.optimizer.get_experimental_options().get(option, False)
    tf.config.optimizer.set_experimental_options({option: True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({option: given})
