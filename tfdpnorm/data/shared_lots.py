"""The same Poisson batches in several processes, of which each gathers its share."""

import hashlib
import struct

import numpy as np


class SharedLots:
    """Draws in each process what it draws in all others, and takes its physical batches of that.

    Members and slots come from SHAKE256 (FIPS 202) of a secret key, the number of the update and
    that of the draw. They are a function of these, so that one key may serve for the updates of one
    `fit` only, each of which has a number of its own. The key is 32 bytes, the same in all
    processes; None with an insecure seed.
    """

    def __init__(self, key, index, count):
        self._key, self._index, self._count = key, index, count

    def bits(self, update):
        """Returns the source of random words for an update: from a count to that many uint64."""
        draws = 0

        def words(count):
            nonlocal draws
            place, draws = struct.pack("<qq", update, draws), draws + 1
            state = hashlib.shake_256(b"members and slots" + self._key + place)
            return np.frombuffer(state.digest(8 * count), np.uint64)

        return words

    def share_of(self, batches):
        """Returns the physical batches of this process, from all of them [K, ...]."""
        first, end = share(self._index, self._count, len(batches))
        return batches[first:end]


def share(number, of, count):
    """Returns the first of `count` things that share `number` of so many has, and the one after.

    Shares follow each other, and differ by one at most.
    """
    return number * count // of, (number + 1) * count // of
