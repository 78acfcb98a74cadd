"""The generator that a layer draws normal numbers from, and its seed."""

import numbers
import random

import tensorflow as tf

from tfdpnorm.arguments import refusal
from tfdpnorm.dtypes import at_least_float32


def checked_seed(seed):
    """Returns `seed` as an int, or None."""
    if seed is None:
        return None
    if isinstance(seed, numbers.Integral) and not isinstance(seed, bool) and 0 <= seed < 2**63:
        return int(seed)
    raise refusal("seed", "to be None or an int from 0 to 2**63 - 1", seed)


def new_generator(seed):
    """Returns a `tf.random.Generator` that starts from a seed of `checked_seed`.

    None takes one from Python's `random`, which `keras.utils.set_random_seed` makes repeatable.
    """
    key = random.getrandbits(63) if seed is None else seed
    with tf.init_scope():
        # Not from_seed, which uses the seed as a counter: seed 8 would give the numbers of
        # seed 7, four numbers later.
        return tf.random.Generator.from_key_counter(key, [0, 0], "philox")


def normal_numbers(generator, shape, dtype):
    """Returns numbers from N(0, 1) of a dtype, drawn in float32, or in float64 for that."""
    return tf.cast(generator.normal(shape, dtype=at_least_float32(dtype)), dtype)
