"""Gaussian noise that nothing can repeat, but the very same update."""

import hashlib
import math
import secrets
import struct

import numpy as np
import tensorflow as tf

from tfdpnorm.training.step.fingerprint import chain, fingerprint

GENERATORS = ("philox", "shake256")


class GaussianNoise:
    """Draws the privacy noise from a generator keyed by a secret.

    The noise of an update is a function of the key, the number of the update, and the bits of what
    it is added to. The key comes from the operating system, so that neither a global seed, nor
    tracing, compiling or restoring a model anew can make two draws equal. The bits are there so
    that two different sums do not get the same noise, which would cancel in their difference: not
    even where a resumed run repeats updates under the old key and they give another result. Under
    a secret key, the noise of an update is Gaussian for any fixed value of the sum, and independent
    of that of every other update.

    Args:
        insecure_seed: An int makes the noise repeatable, whatever it is added to, for tests and
            debugging. Whoever knows it can subtract the noise: no guarantee holds.
        key: Bytes, the secret of a run that is resumed; None for a new one.
        generator: "philox", which is fast and no cryptographic generator; or "shake256", which is
            one (FIPS 202), runs on the host, and cannot be compiled by XLA.

    Attributes:
        update_count: Variable, int64: the number of the next update. It is kept here, out of the
            sight of Keras, because restoring a model's weights must not set it back.
        release: Variable, int64: identifies what the updates so far have released. It can be
            shown: it says as much about the data as the noise does.
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
        self._secret = hashlib.shake_256(b"noise" + key).digest(32)
        self.update_count = tf.Variable(0, trainable=False, dtype=tf.int64, name="updates")
        self.release = tf.Variable(0, trainable=False, dtype=tf.int64, name="release")
        # A variable, not a constant, so that the key is no part of any traced graph.
        self._key = tf.Variable(
            np.frombuffer(self._secret, np.int64), trainable=False, name="noise_key"
        )

    def draw(self, shapes, stddev, update, addends=()):
        """Returns independent float32 Gaussian tensors, and adds the draw to `release`.

        Args:
            shapes: List of shapes.
            stddev: Standard deviation of every coordinate.
            update: Scalar int64, the number of the update, never the same twice for other addends.
            addends: List of float tensors, what the noise is for.
        """
        shapes = [tf.TensorShape(shape) for shape in shapes]
        # Starts on multiples of 16 numbers are where TensorFlow slices without a copy.
        rooms = [-(-shape.num_elements() // 16) * 16 for shape in shapes]
        update, bits = tf.cast(update, tf.int64), fingerprint(addends)
        self.add_to_release(self._bits(2, tf.stack([update, bits]), b"release"))
        # Repeatable noise is there to compare runs by, whose sums differ by rounding.
        bits = bits if self.insecure_seed is None else tf.zeros_like(bits)
        place = tf.stack([update, bits])
        numbers = normals(self._bits(sum(rooms), place, b"normals")) * tf.cast(stddev, tf.float32)
        begins = [sum(rooms[:i]) for i in range(len(rooms))]
        return [
            tf.reshape(numbers[begin : begin + shape.num_elements()], shape)
            for begin, shape in zip(begins, shapes, strict=True)
        ]

    def add_to_release(self, words):
        """Adds integer `words` of what an update gave out to `release`."""
        self.release.assign(chain(self.release, words))

    def _bits(self, count, place, purpose):
        """[2, count / 2] random int32, for the update and addends at `place`, [2] int64."""
        shape = [2, count // 2]
        if self.generator == "philox":
            # Two words of the key for each purpose.
            key = self._key[:2] if purpose == b"normals" else self._key[2:]
            return tf.random.stateless_uniform(
                shape, key + place, minval=None, maxval=None, dtype=tf.int32, alg="philox"
            )

        def digest(place):
            state = hashlib.shake_256(self._secret + purpose + struct.pack("<qq", *place))
            return np.frombuffer(state.digest(4 * count), np.int32).reshape(shape)

        return tf.ensure_shape(tf.numpy_function(digest, [place], tf.int32), shape)


def check_generator(generator):
    """Raises ValueError unless `generator` is one of `GENERATORS`."""
    if generator not in GENERATORS:
        raise ValueError(f"Expected noise_generator to be one of {GENERATORS}, got {generator!r}.")


def normals(bits):
    """Independent standard normal numbers, by Box and Muller's transform of random bits.

    32 bits go into each radius and 32 into each angle, so that values reach 6.6 standard
    deviations. `tf.random.stateless_normal` is the same transform, of 23 bits (5.6 standard
    deviations), computed number by number instead of in vectors, which takes half as long again.

    Args:
        bits: [2, n], int32: random words for radii and for angles.

    Returns:
        [2 n], float32.
    """
    radius_word, angle_word = tf.unstack(tf.cast(bits, tf.float32) * 2.0**-31)  # in [-1, 1]
    # Of the radius' word the sign is not used, and 0 stands for what is smaller than 2^-31.
    radius = tf.sqrt(-2.0 * tf.math.log(tf.maximum(tf.abs(radius_word), 2.0**-32)))
    angle = angle_word * math.pi
    return tf.concat([radius * tf.cos(angle), radius * tf.sin(angle)], axis=0)
