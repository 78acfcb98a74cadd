"""What this runs on, where the fastest form depends on it."""

import tensorflow as tf
from tensorflow.python.ops import control_flow_util


def has_gpu():
    """Whether TensorFlow computes on a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


def in_xla():
    """Whether what is traced now is compiled by XLA, which does not have every operation."""
    # There is no public way to ask.
    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())
