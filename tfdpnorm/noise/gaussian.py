"""Gaussian noise that is never used twice."""

import hashlib
import secrets

import numpy as np
import tensorflow as tf

from tfdpnorm.choices import GENERATORS
from tfdpnorm.keras_compat.devices_and_precision import in_xla
from tfdpnorm.noise.grid import FURTHER_WORDS, noised_on_grid
from tfdpnorm.noise.words import OpenSSLWords, PhiloxWords


def generator_of(generator, insecure_seed):
    """Returns the one of `GENERATORS` that is used; for None "openssl", or "philox" with a seed.

    A seed with "openssl", which takes none, is rejected.
    """
    if generator is None:
        return "openssl" if insecure_seed is None else "philox"
    if generator not in GENERATORS:
        raise ValueError(f"Expected noise_generator to be one of {GENERATORS}, got {generator!r}.")
    if generator == "openssl" and insecure_seed is not None:
        raise ValueError(
            'Expected no insecure_seed with noise_generator="openssl", which nothing can repeat, '
            f'got {insecure_seed}. Leave out one of them, or use "philox".'
        )
    return generator


class GaussianNoise:
    """Adds the privacy noise to sums, from a generator that nobody else can repeat.

    "openssl" is a cryptographic generator with a state of its own: no two draws are related. With
    "philox" the noise of an update is a function of a key and a number. The key comes from the
    operating system, is drawn for each object of this class and is written nowhere: neither a
    global seed nor another process can repeat it. **No number is used twice**: `next_number` moves
    the counter on *before* it gives the number, and the noise is computed from what it gave. So an
    update that fails or is interrupted, at whatever moment, leaves no number behind that the next
    one could use again. Nothing sets the counter back: it is no part of a checkpoint or of a
    model's weights.

    Args:
        insecure_seed: An int makes the noise repeatable, a function of the seed and the number
            alone, for tests and debugging. The seed reveals the noise: no guarantee holds.
        generator: "openssl", which runs on the host and takes no seed; or "philox", which is not
            cryptographic. None for "openssl", or "philox" with a seed.
        first_number: The first number, an int >= 0: that of updates spent before, so that a run
            with a seed does not repeat them after it was resumed.

    Attributes:
        update_count: Variable, int64: the number of the next update.
    """

    def __init__(self, insecure_seed=None, generator=None, first_number=0):
        self.insecure_seed = insecure_seed
        self.generator = generator_of(generator, insecure_seed)
        if insecure_seed is None:
            key = secrets.token_bytes(32)
        else:
            words = np.random.SeedSequence(insecure_seed).generate_state(4, np.uint64)
            key = words.tobytes()
        if self.generator == "openssl":
            self._words = OpenSSLWords()
        else:
            secret = hashlib.shake_256(b"noise" + key).digest(32)
            self._words = PhiloxWords(secret, (b"normals", b"further"))
        self.update_count = tf.Variable(
            first_number, trainable=False, dtype=tf.int64, name="updates"
        )

    def next_number(self):
        """Returns a number that no update has had, a scalar int64, and counts it as used."""
        return self.update_count.assign_add(1, read_value=True) - 1

    def noised(self, sums, stddev, update):
        """Returns sums, a list, with independent Gaussian noise, on a grid (`noised_on_grid`).

        `stddev` > 0 is that of every coordinate; `update` is a number that `next_number` returned,
        used for nothing else.
        """
        update = tf.cast(update, tf.int64)
        released = [None] * len(sums)
        for number, dtype in enumerate(dict.fromkeys(s.dtype for s in sums)):
            # One vector for all of a dtype. Updates are numbered from 0: the upper bits are free.
            place = tf.stack([update + (number << 40), tf.zeros_like(update)])
            indices = [i for i, s in enumerate(sums) if s.dtype == dtype]
            # Starts on multiples of 16 numbers are where TensorFlow slices without a copy.
            tensors = [sums[i] for i in indices]
            ends = np.cumsum([-(-t.shape.num_elements() // 16) * 16 for t in tensors]).tolist()
            begins, parts = [0, *ends[:-1]], []
            for tensor, begin, end in zip(tensors, begins, ends, strict=True):
                count = tensor.shape.num_elements()
                parts += [
                    tf.reshape(tensor, [count]),
                    tf.zeros([end - begin - count], tensor.dtype),
                ]
            vector = tf.concat(parts, axis=0)
            noised = self._noised(vector, float(stddev), place)
            for i, begin in zip(indices, begins, strict=True):
                count = sums[i].shape.num_elements()
                released[i] = tf.reshape(noised[begin : begin + count], sums[i].shape)
        return released

    def _noised(self, vector, stddev, place):
        """A vector of even length with noise drawn for `place`, [2]."""
        words = self._words(b"normals", place, [2, vector.shape[0] // 2])

        def further(index):
            count = index.shape[0] or tf.size(index)
            return self._words(b"further", place, [FURTHER_WORDS, count])

        return noised_on_grid(vector, stddev, words, further, all_in_float64=in_xla())
