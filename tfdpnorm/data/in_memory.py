"""Examples in memory: arrays that TensorFlow gathers the rows of a batch from."""

import numpy as np
import tensorflow as tf

from tfdpnorm.data import arrays
from tfdpnorm.data.inputs import InputArrays


class ExamplesInMemory:
    """`count` = N rows of arrays [N, ...], checked as `tfdpnorm.data.poisson_batches` says, copied.

    `x` and `y` are structures of arrays, or None for y; None as weights stands for ones.
    """

    reads_own_code = False
    is_read_on_demand = False

    def __init__(self, x, y, sample_weight):
        x = arrays.map_leaves(arrays.text_or_numeric_array, x, "x")
        if y is not None:
            y = arrays.map_leaves(arrays.numeric_array, y, "y")
        lengths = []
        for structure, name in ((x, "x"), (y, "y")):
            if structure is not None:
                arrays.map_leaves(
                    lambda leaf, leaf_name: lengths.append((leaf_name, len(leaf))), structure, name
                )
        self.count = arrays.common_length(lengths)
        weights = np.ones(self.count, dtype=np.float32)
        if sample_weight is not None:
            weights = checked_weights(sample_weight, self.count)
        parts = (x, y, weights)
        self._padded = tf.nest.map_structure(lambda p: None if p is None else _padded(p), parts)

    @property
    def parts(self):
        """The triple (x, y, sample_weight) of arrays [N, ...]; not copied, and read-only."""
        return tf.nest.map_structure(
            # Not `numpy()`, which would copy them.
            lambda padded: None if padded is None else np.asarray(padded)[:-1],
            self._padded,
        )

    @property
    def inputs(self):
        """`InputArrays`."""
        return InputArrays(self.parts[0])

    def lot(self, placed):
        """Returns the triple (x, y, sample_weight) of tensors [K, P, ...] of a batch.

        `placed` holds the numbers of examples, N for padding, int64 [K, P].
        """
        return tf.nest.map_structure(
            lambda padded: None if padded is None else tf.gather(padded, placed), self._padded
        )

    def blocks(self):
        """Yields `parts` of all examples, in their order: here, at once."""
        yield self.parts


def _padded(array):
    """Returns a tensor on the host: `array` [N, ...], then a row of zeros or of empty texts."""
    padded = np.zeros((len(array) + 1,) + array.shape[1:], dtype=array.dtype.newbyteorder("="))
    if array.dtype == object:  # texts
        padded.fill(b"")
    padded[:-1] = array
    with tf.device("/cpu:0"):
        return tf.constant(padded)


def checked_weights(sample_weight, num_examples):
    """Returns weights as an array, float32 [N, ...]; raises as `tfdpnorm.data.poisson_batches`."""
    given = arrays.numeric_array(sample_weight, "sample_weight")
    if given.shape[:1] != (num_examples,):
        raise ValueError(
            f"Expected sample_weight of shape [{num_examples}], one per example, or "
            f"[{num_examples}, ...], one for each value of the loss, got shape {list(given.shape)}."
        )
    if given.shape[1:] == (1,):
        given = given[:, 0]
    with np.errstate(over="ignore"):
        weights = given.astype(np.float32)
    # Again, since a float64 beyond the range of float32 has become infinite.
    arrays.require_finite(weights, "sample_weight (as float32)")
    if (weights < 0).any():
        rows = np.flatnonzero((weights < 0).reshape(num_examples, -1).any(1))
        raise ValueError(
            f"Expected sample_weight >= 0, got {len(rows)} negative weight(s), "
            f"first in row(s) {rows[:5].tolist()}."
        )
    return weights
