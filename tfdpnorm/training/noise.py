"""Gaussian noise that nothing can repeat."""

import math
import secrets

import numpy as np
import tensorflow as tf


class GaussianNoise:
    """Draws the privacy noise from a stateless generator keyed by a secret.

    The noise of update t is a function of (key, t) and the variables' shapes alone. The key comes
    from the operating system, so that neither a global seed, nor tracing, compiling or restoring a
    model anew can make two draws equal; the update number never repeats under one key.

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
        shapes = [tf.TensorShape(shape) for shape in shapes]
        # Starts on multiples of 16 numbers are where TensorFlow slices without a copy.
        rooms = [-(-shape.num_elements() // 16) * 16 for shape in shapes]
        seed = self._key + tf.stack([tf.cast(update, tf.int64), tf.constant(0, tf.int64)])
        numbers = standard_normals(sum(rooms), seed) * tf.cast(stddev, tf.float32)
        begins = [sum(rooms[:i]) for i in range(len(rooms))]
        return [
            tf.reshape(numbers[begin : begin + shape.num_elements()], shape)
            for begin, shape in zip(begins, shapes, strict=True)
        ]


def standard_normals(count, seed):
    """Independent standard normal numbers, by Box and Muller's transform of Philox' random bits.

    32 bits go into each radius and 32 into each angle, so that values reach 6.6 standard
    deviations. `tf.random.stateless_normal` is the same transform, of 23 bits (5.6 standard
    deviations), computed number by number instead of in vectors, which takes half as long again.

    Args:
        count: How many, an even number.
        seed: [2], int64.

    Returns:
        [count], float32.
    """
    bits = tf.random.stateless_uniform(
        [2, count // 2], seed, minval=None, maxval=None, dtype=tf.int32, alg="philox"
    )
    radius_word, angle_word = tf.unstack(tf.cast(bits, tf.float32) * 2.0**-31)  # in [-1, 1]
    # Of the radius' word the sign is not used, and 0 stands for what is smaller than 2^-31.
    radius = tf.sqrt(-2.0 * tf.math.log(tf.maximum(tf.abs(radius_word), 2.0**-32)))
    angle = angle_word * math.pi
    return tf.concat([radius * tf.cos(angle), radius * tf.sin(angle)], axis=0)
