"""How much noise the gradient through the public statistics adds to that of the other weights."""

import numpy as np
import tensorflow as tf

from tfdpnorm.layers.public_batch_normalization import called_with_public_moments
from tfdpnorm.layers.public_statistics import PublicStatistics, pull_back, record_pass


def pulled_back_powers(model, public_rows, variables, draws, rng):
    """Pulls back standard normal noise of all gammas and betas to `variables`.

    Nothing but the public rows, a structure of [M, ...], is looked at. Returns the mean over so
    many draws of the squared norm that reaches each of the variables, an array [variables], and the
    `PublicStatistics` of the rows.
    """
    statistics = PublicStatistics()
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(variables)
        with record_pass(statistics):
            called_with_public_moments(model, public_rows, training=False)
    powers = np.zeros(len(variables))
    for _ in range(draws):
        reached = pull_back(tape, statistics, lambda v: standard_normal(rng, v), variables)
        powers += [squared_norm(part) / draws for part in reached]
    return powers, statistics


def standard_normal(rng, like):
    """Standard normal numbers of the shape and dtype of a tensor or variable."""
    return tf.constant(rng.normal(size=like.shape), like.dtype)


def squared_norm(part):
    """The squared norm of a tensor or of indexed slices, a float."""
    return float(tf.reduce_sum(tf.square(tf.cast(tf.convert_to_tensor(part), tf.float64))))
