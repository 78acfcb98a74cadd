"""Keyed hashes: which sum an update releases, told by 64 bits that no two sums share."""

import hashlib
import itertools

import numpy as np
import tensorflow as tf

from tfdpnorm.keras_compat.devices import has_gpu, in_xla

BLOCK = 1024
LEVELS = 5
_STRUCTURE_WORDS = 8
_MOST_BLOCKS_JOINED = 256  # of a tensor: to join them takes a copy


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
        # Blocks are hashed one by one: those of several small tensors in one go, a smaller graph.
        hashed = []
        for are_small, some in itertools.groupby(map(_blocks_of, tensors), _is_small):
            some = [tf.concat(list(some), axis=0)] if are_small else some
            hashed += [self._hashed(blocks, 0) for blocks in some]
        words = tf.concat(hashed, axis=0)
        level = 1
        while words.shape[0] > BLOCK - _STRUCTURE_WORDS:
            words = self._hashed(_blocks(words), level)
            level += 1
        structure = np.frombuffer(_structure_digest(tensors), np.int32)
        words = self._hashed(_blocks(tf.concat([structure, words], axis=0)), level)
        return tf.bitcast(words, tf.int64)

    def _hashed(self, blocks, level):
        """[2 blocks], int32, of int32 words [blocks, BLOCK]."""
        words = tf.cast(blocks, tf.int64)
        keys = self._keys[level]
        factors = keys[:, :BLOCK]
        if has_gpu() or in_xla():  # GPUs have no products of int64 matrices
            sums = [tf.reduce_sum(words * factor, axis=1) for factor in tf.unstack(factors)]
            sums = tf.stack(sums, axis=1)
        else:
            sums = tf.linalg.matmul(words, factors, transpose_b=True)
        upper = tf.bitwise.right_shift(sums + keys[:, BLOCK], tf.constant(32, tf.int64))
        return tf.reshape(tf.cast(upper, tf.int32), [2 * words.shape[0]])


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


def _blocks_of(tensor):
    return _blocks(tf.reshape(tf.bitcast(tensor, tf.int32), [-1]))


def _blocks(words):
    """int32 words [n] as [blocks, BLOCK], with zeros at the end."""
    count = -(-words.shape[0] // BLOCK)
    words = tf.pad(words, [[0, count * BLOCK - words.shape[0]]])
    return tf.reshape(words, [count, BLOCK])


def _is_small(blocks):
    return blocks.shape[0] <= _MOST_BLOCKS_JOINED


def _structure_digest(tensors):
    """What tells lists of tensors apart that have the same numbers: 32 bytes."""
    structure = [(t.dtype.name, t.shape.as_list()) for t in tensors]
    return hashlib.sha256(repr(structure).encode()).digest()
