"""Gaussian noise that nothing can repeat."""

import secrets

import numpy as np
import tensorflow as tf


class GaussianNoise:
    """Draws the privacy noise from a stateless generator keyed by a secret.

    The noise of variable i in update t is a function of (key, t, i) alone. The key comes from the
    operating system, so that neither a global seed, nor tracing, compiling or restoring a model
    anew can make two draws equal; the update number never repeats under one key.

    Args:
        insecure_seed: An int makes the noise repeatable, for tests and debugging. Whoever knows
            it can subtract the noise: no guarantee holds.

    Attributes:
        update_count: Variable, int64: the number of the next update. It is kept here, out of the
            sight of Keras, because restoring a model's weights must not set it back.
    """

    def __init__(self, insecure_seed=None):
        self.insecure_seed = insecure_seed
        if insecure_seed is None:
            words = [secrets.randbits(63), secrets.randbits(63)]
        else:
            words = np.random.SeedSequence(insecure_seed).generate_state(2, np.uint64) >> 1
        self.update_count = tf.Variable(0, trainable=False, dtype=tf.int64, name="updates")
        # A variable, not a constant, so that the key is no part of any traced graph.
        self._key = tf.Variable(
            np.array(words, np.int64), trainable=False, dtype=tf.int64, name="noise_key"
        )

    def draw(self, shapes, stddev, update):
        """Returns independent float32 Gaussian tensors.

        Args:
            shapes: List of shapes.
            stddev: Standard deviation of every coordinate.
            update: Scalar int64, the number of the update, never the same twice.
        """
        update = tf.cast(update, tf.int64)
        return [
            tf.random.stateless_normal(
                shape,
                seed=self._key + tf.stack([update, tf.constant(index, tf.int64)]),
                stddev=tf.cast(stddev, tf.float32),
                alg="philox",
            )
            for index, shape in enumerate(shapes)
        ]
