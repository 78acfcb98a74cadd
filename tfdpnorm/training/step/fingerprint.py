"""A number that tells whether two updates are the same to the last bit."""

import tensorflow as tf

from tfdpnorm.keras_compat.devices import has_gpu

# Knuth's multiplier for 64 bits (The Art of Computer Programming, vol. 2, 3.3.4): odd, well mixed.
_MULTIPLIER = 6364136223846793005


def fingerprint(tensors):
    """A 64-bit number of the bits of float tensors, and of where they are; int64 scalar.

    Made for accidents, not against an adversary: other rounding, another
    learning rate, another model. The bits of a tensor are summed along its last axis and across
    it, and the sums weighted by position, so that changes which cancel in the one do not in the
    other. (Turning the signs of even numbers of coordinates in each row and column, and nothing
    else, does go unseen.) It costs two passes over the memory.

    Args:
        tensors: List of float32 or float64 tensors.
    """
    total = tf.constant(0, tf.int64)
    for tensor in tensors:
        words = tf.bitcast(tensor, tf.int64 if tensor.dtype == tf.float64 else tf.int32)
        if has_gpu():
            words = tf.cast(words, tf.int64)  # TensorFlow sums int32 on the host
        sums = [words]
        if words.shape.rank > 1:
            rows = tf.reshape(words, [-1, words.shape[-1]])
            sums = [tf.reduce_sum(rows, axis=0), tf.reduce_sum(rows, axis=1)]
        for part in sums:
            part = tf.reshape(tf.cast(part, tf.int64), [-1])
            weights = 2 * tf.range(tf.size(part, out_type=tf.int64), dtype=tf.int64) + 1
            total = total * _MULTIPLIER + tf.reduce_sum(part * weights)
    return total


def chain(before, words):
    """The next number of a chain: of the one `before`, int64, and of integers `words`."""
    for word in tf.unstack(tf.reshape(tf.cast(words, tf.int64), [-1])):
        before = before * _MULTIPLIER + 2 * word + 1
    return before
