"""Gaussian noise that nothing can repeat, but the very same update."""

import hashlib
import secrets

import numpy as np
import tensorflow as tf

from tfdpnorm.choices import GENERATORS
from tfdpnorm.keras_compat.devices import in_xla
from tfdpnorm.training.step.exact_noise import FURTHER_WORDS, float32_normals, noised_on_grid
from tfdpnorm.training.step.random_words import PhiloxWords, ShakeWords
from tfdpnorm.training.step.sum_hash import HostHash, SumHash

# Knuth's multiplier for 64 bits (The Art of Computer Programming, vol. 2, 3.3.4): odd, well mixed.
_MULTIPLIER = 6364136223846793005

_LARGE = 2**15  # numbers in a tensor


class GaussianNoise:
    """Adds the privacy noise to sums, from a generator keyed by a secret.

    The noise of an update is a function of the key, the number of the update, and a keyed hash of
    what it is added to. The key comes from the operating system, so that neither a global seed, nor
    tracing, compiling or restoring a model anew can make two draws equal. The hash is there so that
    two different sums do not get the same noise, which would cancel in their difference: not even
    where a resumed run repeats updates under the old key and they give another result. Two sums
    share it with a probability of 3e-19 (`SumHash`). Under a secret key, the noise of an update is
    Gaussian for any fixed value of the sum, and independent of that of every other update.

    Args:
        insecure_seed: An int makes the noise repeatable, whatever it is added to, for tests and
            debugging. Whoever knows it can subtract the noise: no guarantee holds.
        key: Bytes, the secret of a run that is resumed; None for a new one.
        generator: "philox", no cryptographic generator; or "shake256", which is one (FIPS 202),
            runs on the host, and cannot be compiled by XLA. With both, what is released lies on a
            grid (`noised_on_grid`). "fast": Philox, and float32 noise added in float32: its bits
            tell which of two sums it was added to.

    Attributes:
        update_count: Variable, int64: the number of the next update. It is kept here, out of the
            sight of Keras, because restoring a model's weights must not set it back.
        release: Variable, int64: identifies what the updates so far have released. It can be
            shown: it comes from the generator of the noise, as independent words.
    """

    def __init__(self, insecure_seed=None, key=None, generator="philox"):
        check_generator(generator)
        self.insecure_seed = insecure_seed
        self.generator = generator
        if insecure_seed is not None:
            words = np.random.SeedSequence(insecure_seed).generate_state(4, np.uint64)
            key = words.tobytes()
        elif key is None:
            key = secrets.token_bytes(32)
        secret = hashlib.shake_256(b"noise" + key).digest(32)
        if generator == "shake256":
            self._words, self._hash = ShakeWords(secret), HostHash(secret)
        else:
            self._words = PhiloxWords(secret, (b"normals", b"further", b"release"))
            self._hash = SumHash(secret)
        self.update_count = tf.Variable(0, trainable=False, dtype=tf.int64, name="updates")
        self.release = tf.Variable(0, trainable=False, dtype=tf.int64, name="release")

    def noised(self, sums, stddev, update):
        """Returns sums with independent Gaussian noise, and adds the draw to `release`.

        Args:
            sums: List of float32 or float64 tensors.
            stddev: Standard deviation of every coordinate, a float > 0.
            update: Scalar int64, the number of the update, never the same twice for other sums.

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
        place = self._recorded(sums, update)
        if self.insecure_seed is not None:
            # Repeatable noise is there to compare runs by, whose sums differ by rounding.
            place *= tf.constant([1, 0], tf.int64)
        groups = [[sums[i] for i in group] for group in _groups(sums)]
        noised = self._noised([_packed(group) for group in groups], float(stddev), place)
        released = {}
        for indices, group, numbers in zip(_groups(sums), groups, noised, strict=True):
            released |= zip(indices, _unpacked(numbers, group), strict=True)
        return [released[i] for i in range(len(sums))]

    def record(self, sums, update):
        """Adds to `release` that `sums` were given out without noise."""
        self._recorded(sums, update)

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

    def _recorded(self, sums, update):
        """Adds an update to `release`; returns the place that its noise is drawn for, [2] int64."""
        place = tf.stack([tf.cast(update, tf.int64), self._hash(sums)])
        number = self.release.read_value()
        for word in tf.unstack(self._words(b"release", place, [2])):
            number = number * _MULTIPLIER + 2 * tf.cast(word, tf.int64) + 1
        self.release.assign(number)
        return place


def check_generator(generator):
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
