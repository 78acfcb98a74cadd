"""The dtype in which sums, norms, moments and noise are computed: float32 at least."""

import tensorflow as tf


def at_least_float32(dtype):
    """Returns tf.float64 for float64, and tf.float32 for any other dtype or name of one."""
    return tf.float64 if tf.as_dtype(dtype) == tf.float64 else tf.float32


def widened(x):
    """Returns the tensor `x` in `at_least_float32` of its dtype."""
    return tf.cast(x, at_least_float32(x.dtype))
