"""Keyed hashes: which sum an update releases, told by 64 bits that no two sums share."""

import hashlib

import numpy as np
import tensorflow as tf

from tfdpnorm.keras_compat.devices import has_gpu, in_xla

BLOCK = 1024
LEVELS = 5
_STRUCTURE_WORDS = 8


class SumHash:
    """A universal hash of float tensors, of all their bits, in TensorFlow's operations.

    The words x_i of 32 bits of a block of 1,024, of one tensor, are hashed to two words, each

        ((k_0 + sum_i k_i x_i) mod 2^64) div 2^32

    with keys k of 64 bits of its own (multilinear hashing). The words that come out are hashed in
    the same way with the keys of the next level, until one block is left, to which a SHA-256 digest
    of shapes and dtypes is added.

    Any two different inputs that were chosen without knowing the keys collide with a probability of
    at most LEVELS 2^-64. Proof. Let x and y differ, x_j - y_j = 2^v c with c odd; v is at most 31.
    Over the choice of k_j, k_j (x_j - y_j) is uniform among the multiples of 2^v, and so the
    difference d of the two sums is uniform among 2^(64 - v) numbers at distances of 2^v. Given d,
    and over the choice of k_0, the upper halves agree with a probability of 1 - |d| / 2^32 if |d|
    (the distance from 0 mod 2^64) is less than 2^32, or else 0. Summed over the numbers at
    distances of 2^v within (-2^32, 2^32) that is 2^(32 - v), of 2^(64 - v): 2^-32. Both words of
    a block agree with a probability of 2^-64. Two inputs that collide do so at a first level where
    a block that differs gives equal words. Each level has its own keys, so that its probability is
    2^-64 whatever the levels before it gave, and these add up.

    Args:
        secret: Bytes that the keys come from, by SHAKE256.

    Reference:
        Carter and Wegman (1979), "Universal classes of hash functions"; Dietzfelbinger, Hagerup,
        Katajainen and Penttonen (1997), "A reliable randomized algorithm for the closest-pair
        problem"; Black, Halevi, Krawczyk, Krovetz and Rogaway (1999), "UMAC"; Lemire and Kaser
        (2014), "Strongly universal string hashing is fast".
    """

    def __init__(self, secret):
        shape = (LEVELS, 2, BLOCK + 1)
        keys = hashlib.shake_256(b"sum hash" + secret).digest(8 * int(np.prod(shape)))
        # A variable, not a constant, so that the keys are no part of any traced graph.
        self._keys = tf.Variable(
            np.frombuffer(keys, np.int64).reshape(shape), trainable=False, name="hash_keys"
        )

    def __call__(self, tensors):
        """Returns the hash of a list of float32 or float64 tensors: int64."""
        words = tf.concat([self._hashed(_words_of(t), 0) for t in tensors], axis=0)
        level = 1
        while words.shape[0] > BLOCK - _STRUCTURE_WORDS:
            words = self._hashed(words, level)
            level += 1
        structure = np.frombuffer(_structure_digest(tensors), np.int32)
        words = self._hashed(tf.concat([structure, words], axis=0), level)
        return tf.bitcast(words, tf.int64)

    def _hashed(self, words, level):
        """[2 blocks], int32, of int32 words [n]."""
        blocks = -(-words.shape[0] // BLOCK)
        words = tf.pad(words, [[0, blocks * BLOCK - words.shape[0]]])
        words = tf.cast(tf.reshape(words, [blocks, BLOCK]), tf.int64)
        keys = self._keys[level]
        factors = keys[:, :BLOCK]
        if has_gpu() or in_xla():  # GPUs have no products of int64 matrices
            sums = [tf.reduce_sum(words * factor, axis=1) for factor in tf.unstack(factors)]
            sums = tf.stack(sums, axis=1)
        else:
            sums = tf.linalg.matmul(words, factors, transpose_b=True)
        upper = tf.bitwise.right_shift(sums + keys[:, BLOCK], tf.constant(32, tf.int64))
        return tf.reshape(tf.cast(upper, tf.int32), [2 * blocks])


class HostHash:
    """The same by BLAKE2b with a key (RFC 7693), a cryptographic hash, on the host.

    Args:
        secret: Bytes that the key comes from.
    """

    def __init__(self, secret):
        self._secret = hashlib.shake_256(b"sum hash" + secret).digest(32)

    def __call__(self, tensors):
        """As `SumHash`."""
        structure = _structure_digest(tensors)

        def digest(*values):
            state = hashlib.blake2b(structure, digest_size=8, key=self._secret)
            for value in values:
                state.update(np.ascontiguousarray(value))
            return np.frombuffer(state.digest(), np.int64)[0]

        return tf.ensure_shape(tf.numpy_function(digest, tensors, tf.int64), [])


def _words_of(tensor):
    return tf.reshape(tf.bitcast(tensor, tf.int32), [-1])


def _structure_digest(tensors):
    """What tells lists of tensors apart that have the same numbers: 32 bytes."""
    structure = [(t.dtype.name, t.shape.as_list()) for t in tensors]
    return hashlib.sha256(repr(structure).encode()).digest()
