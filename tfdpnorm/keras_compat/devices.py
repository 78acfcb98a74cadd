"""What this runs on, where the fastest form depends on it.

Private part: `tensorflow.python.ops.control_flow_util`, since nothing public says whether a graph
is compiled by XLA. Version-bound: the switch of TensorFloat-32, `tf.config.experimental`.
"""

import tensorflow as tf
from tensorflow.python.ops import control_flow_util


def has_gpu():
    """Whether TensorFlow computes on a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


def in_xla():
    """Whether what is traced now is compiled by XLA, which does not have every operation."""
    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def switch_off_tensor_float_32():
    """Makes GPUs multiply float32 in float32, for the whole process.

    In TensorFloat-32, their default, norms and clipped sums are off by a thousandth each, and a row
    could exceed the clip by as much.

    Returns:
        Whether this changed anything: False without a GPU, or if it was switched off before.
    """
    on = has_gpu() and tf.config.experimental.tensor_float_32_execution_enabled()
    if on:
        tf.config.experimental.enable_tensor_float_32_execution(False)
    return on
