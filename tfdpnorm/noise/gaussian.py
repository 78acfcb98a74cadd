"""Gaussian noise that is never used twice."""

import hashlib
import secrets

import numpy as np
import tensorflow as tf

from tfdpnorm.choices import GENERATORS
from tfdpnorm.keras_compat.devices_and_precision import in_xla
from tfdpnorm.noise.grid import FURTHER_WORDS, float32_normals, noised_on_grid
from tfdpnorm.noise.words import PhiloxWords, ShakeWords

_LARGE = 2**15  # numbers in a tensor


class GaussianNoise:
    """Adds the privacy noise to sums, from a generator keyed by a secret.

    The noise of an update is a function of a key and a number. The key comes from the operating
    system, is drawn for each object of this class and is written nowhere: neither a global seed nor
    another process can repeat it. **No number is used twice**: `next_number` moves the counter on
    *before* it gives the number, and the noise is computed from what it gave. So an update that
    fails or is interrupted, at whatever moment, leaves no number behind that the next one could use
    again. Nothing sets the counter back: it is no part of a checkpoint or of a model's weights.

    Args:
        insecure_seed: An int makes the noise repeatable, a function of the seed and the number
            alone, for tests and debugging. The seed reveals the noise: no guarantee holds.
        generator: "philox", no cryptographic generator; or "shake256", which is one (FIPS 202),
            runs on the host, and cannot be compiled by XLA. With both, what is released lies on a
            grid (`noised_on_grid`). "fast": Philox, and float32 noise added in float32: its bits
            tell which of two sums it was added to.
        first_number: The first number, an int >= 0: that of updates spent before, so that a run
            with a seed does not repeat them after it was resumed.

    Attributes:
        update_count: Variable, int64: the number of the next update.
    """

    def __init__(self, insecure_seed=None, generator="philox", first_number=0):
        _check_generator(generator)
        self.insecure_seed = insecure_seed
        self.generator = generator
        if insecure_seed is None:
            key = secrets.token_bytes(32)
        else:
            words = np.random.SeedSequence(insecure_seed).generate_state(4, np.uint64)
            key = words.tobytes()
        secret = hashlib.shake_256(b"noise" + key).digest(32)
        if generator == "shake256":
            self._words = ShakeWords(secret)
        else:
            self._words = PhiloxWords(secret, (b"normals", b"further"))
        self.update_count = tf.Variable(
            first_number, trainable=False, dtype=tf.int64, name="updates"
        )

    def next_number(self):
        """Returns a number that no update has had, a scalar int64, and counts it as used."""
        return self.update_count.assign_add(1, read_value=True) - 1

    def noised(self, sums, stddev, update):
        """Returns sums with independent Gaussian noise.

        Args:
            sums: List of float32 or float64 tensors.
            stddev: Standard deviation of every coordinate, a float > 0.
            update: Scalar int64 that `next_number` returned, used for nothing else.

        Returns:
            List of tensors like `sums`.

        Raises:
            ValueError: for float64 with generator "fast".
        """
        if self.generator == "fast" and any(s.dtype == tf.float64 for s in sums):
            raise ValueError(
                'Expected float32 weights with noise_generator="fast", whose noise is float32, got '
                'float64. Use noise_generator="philox".'
            )
        update = tf.cast(update, tf.int64)
        place = tf.stack([update, tf.zeros_like(update)])
        groups = [[sums[i] for i in group] for group in _groups(sums)]
        noised = self._noised([_packed(group) for group in groups], float(stddev), place)
        released = {}
        for indices, group, numbers in zip(_groups(sums), groups, noised, strict=True):
            released |= zip(indices, _unpacked(numbers, group), strict=True)
        return [released[i] for i in range(len(sums))]

    def _noised(self, vectors, stddev, place):
        """A list of vectors of even lengths with noise drawn for `place`, [2]."""
        words = [
            # Updates are numbered from 0: the upper bits of the number are free.
            self._words(
                b"normals",
                place + tf.constant([number << 40, 0], tf.int64),
                [2, vector.shape[0] // 2],
            )
            for number, vector in enumerate(vectors)
        ]
        if self.generator == "fast":
            return [
                v + tf.concat(float32_normals(w, stddev)[:2], axis=0)
                for v, w in zip(vectors, words, strict=True)
            ]

        def further(index):
            count = index.shape[0] or tf.size(index)
            return self._words(b"further", place, [FURTHER_WORDS, count])

        return noised_on_grid(vectors, stddev, words, further, all_in_float64=in_xla())


def _check_generator(generator):
    """Raises ValueError unless `generator` is one of `GENERATORS`."""
    if generator not in GENERATORS:
        raise ValueError(f"Expected noise_generator to be one of {GENERATORS}, got {generator!r}.")


def _groups(tensors):
    """Lists of the indices of tensors whose noise is drawn together.

    Large ones are by themselves, which saves copies; the small ones of a dtype are together, which
    saves operations.
    """
    groups = {}
    for index, tensor in enumerate(tensors):
        count = tensor.shape.num_elements()
        alone = count >= _LARGE and count % 2 == 0
        groups.setdefault(index if alone else tensor.dtype, []).append(index)
    return list(groups.values())


def _rooms(tensors):
    """Where each tensor begins in a vector of all, and the length of that, an even number."""
    if len(tensors) == 1 and tensors[0].shape.num_elements() % 2 == 0:
        return [0], tensors[0].shape.num_elements()
    # Starts on multiples of 16 numbers are where TensorFlow slices without a copy.
    ends = np.cumsum([-(-t.shape.num_elements() // 16) * 16 for t in tensors]).tolist()
    return [0, *ends[:-1]], ends[-1]


def _packed(tensors):
    """All numbers in one vector."""
    begins, length = _rooms(tensors)
    parts = []
    for tensor, begin, end in zip(tensors, begins, [*begins[1:], length], strict=True):
        count = tensor.shape.num_elements()
        parts += [tf.reshape(tensor, [count]), tf.zeros([end - begin - count], tensor.dtype)]
    return tf.concat(parts, axis=0) if len(parts) > 2 or parts[1].shape[0] else parts[0]


def _unpacked(numbers, tensors):
    begins, _ = _rooms(tensors)
    return [
        tf.reshape(numbers[begin : begin + t.shape.num_elements()], t.shape)
        for begin, t in zip(begins, tensors, strict=True)
    ]
