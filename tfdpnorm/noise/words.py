"""Random words that are a function of a secret, a purpose and a place."""

import hashlib
import struct

import numpy as np
import tensorflow as tf


class PhiloxWords:
    """Words of Philox, Salmon et al. (2011): fast, and no cryptographic generator.

    Args:
        secret: Bytes.
        purposes: Collection of names, bytes: streams that have nothing to do with each other.
    """

    def __init__(self, secret, purposes):
        # Variables, not constants, so that the keys are no part of any traced graph.
        self._keys = {
            purpose: tf.Variable(
                np.frombuffer(hashlib.shake_256(purpose + secret).digest(16), np.int64),
                trainable=False,
                name=f"key_of_{purpose.decode()}",
            )
            for purpose in purposes
        }

    def __call__(self, purpose, place, shape):
        """Returns random int32 words.

        Args:
            purpose: One of those given.
            place: [2], int64: never the same for what is to be independent.
            shape: Shape of the result.
        """
        return tf.random.stateless_uniform(
            shape,
            self._keys[purpose] + place,
            minval=None,
            maxval=None,
            dtype=tf.int32,
            alg="philox",
        )


class ShakeWords:
    """Words of SHAKE256 (FIPS 202), a cryptographic generator, made on the host.

    Args:
        secret: Bytes.
    """

    def __init__(self, secret):
        self._secret = secret

    def __call__(self, purpose, place, shape):
        """As `PhiloxWords`."""

        def digest(place, shape):
            state = hashlib.shake_256(self._secret + purpose + struct.pack("<qq", *place))
            return np.frombuffer(state.digest(4 * int(np.prod(shape))), np.int32).reshape(shape)

        words = tf.numpy_function(digest, [place, tf.stack(shape)], tf.int32)
        return tf.ensure_shape(words, [n if isinstance(n, int) else None for n in shape])
