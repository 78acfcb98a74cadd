"""Random words: of a cryptographic generator, or a function of a key and a place."""

import hashlib
import ssl

import numpy as np
import tensorflow as tf

_MOST_BYTES = 2**28  # that OpenSSL is asked for at once; it takes less than 2^31


class OpenSSLWords:
    """Words of OpenSSL's generator: cryptographic, fast, and repeated by nothing.

    It is AES-256 in counter mode (CTR_DRBG, NIST SP 800-90A, unless OpenSSL is configured
    otherwise). The operating system seeds it, again after a fork. It runs on the host.
    """

    def __call__(self, purpose, place, shape):
        """As `PhiloxWords`; no two calls give the same words, whatever the purpose and place."""
        del purpose, place

        def drawn(shape):
            left, parts = 4 * int(np.prod(shape)), []
            while left:
                parts.append(ssl.RAND_bytes(min(left, _MOST_BYTES)))
                left -= len(parts[-1])
            whole = parts[0] if len(parts) == 1 else b"".join(parts)
            return np.frombuffer(whole, np.int32).reshape(shape)

        # It has a state, so that TensorFlow runs it for each update, and runs it once.
        words = tf.numpy_function(drawn, [tf.stack(shape)], tf.int32, stateful=True)
        return tf.ensure_shape(words, [n if isinstance(n, int) else None for n in shape])


class PhiloxWords:
    """Words of Philox, Salmon et al. (2011): no cryptographic generator.

    `secret` and `purposes` are bytes, the latter names of streams that have nothing to do with each
    other.
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
        """Returns random int32 words for one of the purposes.

        `place`, int64 [2], is never the same for what is to be independent.
        """
        return tf.random.stateless_uniform(
            shape,
            self._keys[purpose] + place,
            minval=None,
            maxval=None,
            dtype=tf.int32,
            alg="philox",
        )
