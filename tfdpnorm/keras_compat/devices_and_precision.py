"""What this runs on, in which numbers a layer computes, and which weights Keras casts to them.

Private part: `tensorflow.python.ops.control_flow_util`, since nothing public says whether a graph
is compiled by XLA. Version-bound: the switch of TensorFloat-32 and the names of GPUs,
`tf.config.experimental`.

Under a mixed precision policy Keras 2 wraps the weights of a layer in AutoCastVariable, which hands
out half-precision copies. Version-bound parts: the keyword by which `add_weight` switches that off
(`experimental_autocast` in Keras 2, `autocast` in Keras 3), the wrapper's private `_variable`, for
which there is no public accessor, and the form of policies in a layer's config.
"""

import contextlib
import functools
import inspect
import os
import pathlib
import sys

import tensorflow as tf
from tensorflow import keras
from tensorflow.python.ops import control_flow_util

from tfdpnorm.keras_compat.variables import KERAS_3, raw


@contextlib.contextmanager
def silent_stderr():
    """Context without what native code prints to the error output; errors are raised as ever."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


# --- devices ---


def has_gpu():
    """Whether TensorFlow computes on a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


_KIND = None  # of device that forms are for, if `forms_for` says which


@contextlib.contextmanager
def forms_for(kind):
    """While this lasts, gradients are traced in the forms for a kind of device, "CPU" or "GPU".

    Both give the same numbers on any device, up to rounding: for tests and comparisons.
    """
    global _KIND
    before, _KIND = _KIND, kind
    try:
        yield
    finally:
        _KIND = before


def takes_forms_of_gpus():
    """Whether gradients are traced in the forms for GPUs: where there is one, unless told."""
    return has_gpu() if _KIND is None else _KIND == "GPU"


def gpu_name():
    """Returns the name of the first GPU that TensorFlow sees, None without one."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return None
    return tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")


_CPUINFO = "/proc/cpuinfo"
_BFLOAT16_INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}


def emulates_bfloat16():
    """Whether bfloat16 is known to be slow here: an x86 processor has no instructions for it.

    False on GPUs and other processors, and where Linux does not list the instructions.
    """
    if has_gpu():
        return False
    try:
        lines = pathlib.Path(_CPUINFO).read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    listed = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    return bool(listed.strip()) and not _BFLOAT16_INSTRUCTIONS & set(listed.split())


def in_xla():
    """Whether what is traced now is compiled by XLA, which does not have every operation."""
    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def compiled(function):
    """`function`, compiled by XLA on a CPU: one pass where TensorFlow makes one for each operation.

    TensorFlow's wheels have elementwise kernels for old processors; XLA makes them for this one. On
    a GPU, and where XLA cannot be used, the function is left as it is. It has to consist of
    elementwise operations on tensors and sums over single rows.
    """
    by_xla = tf.function(function, jit_compile=True, autograph=False)

    @functools.wraps(function)
    def called(*tensors):
        return (function if in_xla() or not _has_xla_on_cpu() else by_xla)(*tensors)

    return called


@functools.cache
def _has_xla_on_cpu():
    if has_gpu():
        return False
    # Without its announcement, which comes with the first function that is compiled.
    with tf.init_scope(), silent_stderr():
        try:
            tf.function(tf.identity, jit_compile=True)(tf.zeros([]))
        except (tf.errors.OpError, ValueError, RuntimeError):
            return False
    return True


def switch_off_tensor_float_32():
    """Makes GPUs multiply float32 in float32, in the whole process.

    In TensorFloat-32, their default, norms and clipped sums are off by a thousandth each, and a row
    could exceed the clip by as much. Returns whether this changed anything.
    """
    on = has_gpu() and tf.config.experimental.tensor_float_32_execution_enabled()
    if on:
        tf.config.experimental.enable_tensor_float_32_execution(False)
    return on


# --- precision ---


def no_autocast(add_weight):
    """Returns the keyword argument of `add_weight` that keeps a weight out of autocasting."""
    if "autocast" in inspect.signature(add_weight).parameters:
        return {"autocast": False}
    return {"experimental_autocast": False}


def is_cast_by_keras(variable):
    """Whether Keras hands out `variable` in the compute dtype of the layer that reads it."""
    if KERAS_3:
        return bool(getattr(variable, "_autocast", False))
    return hasattr(variable, "_variable")


def as_stored(variable):
    """Returns the variable behind `variable`, in the dtype in which it is kept."""
    return raw(variable) if KERAS_3 else getattr(variable, "_variable", variable)


@contextlib.contextmanager
def made_under(policy):
    """While this lasts, layers are made under a policy, such as "mixed_bfloat16"."""
    before = global_policy()
    set_global_policy(policy)
    try:
        yield
    finally:
        set_global_policy(before)


def global_policy():
    """Returns the policy that new layers get."""
    if KERAS_3:
        return keras.config.dtype_policy()
    return keras.mixed_precision.global_policy()


def set_global_policy(policy):
    """Sets the policy that new layers get, by name or object."""
    if KERAS_3:
        keras.config.set_dtype_policy(policy)
    else:
        keras.mixed_precision.set_global_policy(policy)


_FIRST_WITH_BFLOAT16 = (8, 0)  # compute capability


def half_precision():
    """The policy of half precision that the machine is quick with.

    Processors have no float16, and older GPUs no bfloat16. Elsewhere it is bfloat16, in which the
    gradients of single rows are computed, too.
    """
    gpus = tf.config.list_physical_devices("GPU")
    details = tf.config.experimental.get_device_details(gpus[0]) if gpus else {}
    older = gpus and details.get("compute_capability", (0, 0)) < _FIRST_WITH_BFLOAT16
    return "mixed_float16" if older else "mixed_bfloat16"
