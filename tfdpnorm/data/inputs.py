"""The inputs of all private examples, to compare them with rows that must not be among them."""

import numpy as np
import tensorflow as tf

from tfdpnorm.data.arrays import joint_digests


class InputArrays:
    """Inputs in memory, a structure of arrays [N, ...]."""

    def __init__(self, x):
        self.x = x

    @property
    def leaves(self):
        """List of the arrays."""
        return [np.asarray(leaf) for leaf in tf.nest.flatten(self.x)]

    def found(self, digests, dtypes):
        """Returns the set of those digests that are digests of inputs of an example.

        They are those of `tfdpnorm.data.arrays.joint_digests`, with these dtypes.
        """
        return digests.intersection(joint_digests(self.leaves, dtypes))

    def some(self):
        """Inputs to see their scale by, a structure of arrays [n, ...]: here, all."""
        return self.x

    def are_those_of(self, other):
        """Whether other inputs are equal to these, to the last bit."""
        leaves, of_others = tf.nest.flatten(self.x), tf.nest.flatten(other.x)
        return len(leaves) == len(of_others) and all(map(_equal, leaves, of_others))


class UnreadInputs:
    """Inputs that are read again for each comparison, which takes as long as reading all of them.

    What was looked for before is remembered, and not looked for again.

    Args:
        x: Structure of `tfdpnorm.data.readers.UnreadArray`.
        blocks: Function that yields structures like x of arrays [n, ...], all in their order.
        some: Function that returns one such structure, of a few examples.
        origin: List of the objects that they are read from.
    """

    def __init__(self, x, blocks, some, origin):
        self.x, self._blocks, self.some, self._origin = x, blocks, some, origin
        self.leaves = tf.nest.flatten(x)
        self._absent = {}  # sets of digests by dtypes: as many as rows were compared

    def found(self, digests, dtypes):
        """As `InputArrays.found`."""
        absent = self._absent.setdefault(tuple(dtypes), set())
        wanted, found = digests - absent, set()
        if wanted:
            for block in self._blocks():
                found |= wanted.intersection(joint_digests(tf.nest.flatten(block), dtypes))
            absent |= wanted - found
        return found

    def are_those_of(self, other):
        """Whether other inputs are read from the same objects."""
        origin = getattr(other, "_origin", ())
        return len(origin) == len(self._origin) and all(
            one is two for one, two in zip(origin, self._origin, strict=True)
        )


def is_inputs(x):
    """Whether this is `InputArrays` or `UnreadInputs`."""
    return isinstance(x, (InputArrays, UnreadInputs))


def as_inputs(x):
    """Returns inputs as they are, and a structure of arrays [N, ...] as `InputArrays`."""
    return x if is_inputs(x) else InputArrays(x)


def _equal(a, b):
    if a is b:
        return True
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)) or a.dtype != b.dtype:
        return False
    # Looking for NaN takes much longer, and is seldom needed.
    return np.array_equal(a, b) or (a.dtype.kind == "f" and np.array_equal(a, b, equal_nan=True))
