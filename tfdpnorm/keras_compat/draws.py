"""What TensorFlow's random operations draw from, exchanged for the time of a call.

Private parts: `random_seed.get_seed`, which all functions of `tf.random` ask for the two seeds of
an operation, `Generator.state`, which all methods of a `tf.random.Generator` draw from, and its
`_state_var`. Publicly, a seed has 31 bits, and a generator is what it was made as.
"""

import contextlib
import threading

import tensorflow as tf
from tensorflow.python.framework import random_seed

_PHILOX = tf.random.Algorithm.PHILOX.value


@contextlib.contextmanager
def seeds_from(seeds):
    """Context in which operations that draw by counters of TensorFlow have other seeds.

    In this thread only, and in what is traced in it: a function that was traced before keeps its
    seeds.

    Args:
        seeds: Function from what an operation was given as its seed, an int or None, to the two
            seeds that it gets, ints below 2**63.
    """
    here, own = threading.get_ident(), random_seed.get_seed

    def get_seed(op_seed):
        return seeds(op_seed) if threading.get_ident() == here else own(op_seed)

    random_seed.get_seed = get_seed
    try:
        yield
    finally:
        random_seed.get_seed = own


@contextlib.contextmanager
def generators_from(stand_in):
    """Context in which every `tf.random.Generator` draws from the state of another.

    Wherever it is: in a layer, an object of a user's, or the global one. In this thread only, and
    in what is traced in it.

    Args:
        stand_in: Function from the generator to the one whose state is drawn from: itself, or one
            that works by Philox.
    """
    here, own = threading.get_ident(), tf.random.Generator.state

    def state(self):
        other = stand_in(self) if threading.get_ident() == here else self
        return other._state_var

    tf.random.Generator.state = property(state)
    try:
        yield
    finally:
        tf.random.Generator.state = own


def is_philox(generator):
    """Whether a generator works by Philox, as those do that TensorFlow makes by default."""
    return int(generator.algorithm) == _PHILOX
