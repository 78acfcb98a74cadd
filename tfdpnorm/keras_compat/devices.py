"""What this runs on, where the fastest form depends on it."""

import warnings

import tensorflow as tf
from tensorflow.python.ops import control_flow_util


def has_gpu():
    """Whether TensorFlow computes on a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


def in_xla():
    """Whether what is traced now is compiled by XLA, which does not have every operation."""
    # There is no public way to ask.
    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def keep_float32():
    """Has GPUs multiply float32 in float32, and says so.

    In TensorFloat-32, their default, norms and clipped sums are off by a thousandth each, and a row
    could exceed the clip by as much.
    """
    if has_gpu() and tf.config.experimental.tensor_float_32_execution_enabled():
        tf.config.experimental.enable_tensor_float_32_execution(False)
        warnings.warn(
            "TensorFloat-32 is switched off in this process: it would round the norms that "
            "gradients are clipped by. For speed, use the policy mixed_float16 or mixed_bfloat16.",
            stacklevel=4,
        )
