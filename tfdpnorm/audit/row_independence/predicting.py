"""Per-example independence of inference: what a private validation, or features, count on."""

import tensorflow as tf

from tfdpnorm.audit.row_independence.proof.proof import prove


def rows_apart(function, x, batch_size):
    """Returns how many rows may be run together so that none changes the outputs of another.

    Args:
        function: From a structure of [rows, ...] to outputs of [rows, ...], in inference.
        x: Structure of arrays [N, ...], which are run `batch_size` at a time, and then the rest.
        batch_size: How many are wanted.

    Returns:
        `batch_size` if that is proved of the graph for so many rows; otherwise 1.

    Raises:
        ValueError: if the function keeps something of the rows before.
    """
    count = len(tf.nest.flatten(x)[0])
    for size in sorted({min(batch_size, count), count % batch_size} - {0}, reverse=True):
        specs = tf.nest.map_structure(
            lambda a, size=size: tf.TensorSpec([size, *a.shape[1:]], a.dtype), x
        )
        proof = prove(function, (specs,), size)
        if proof.state_faults:
            raise ValueError(
                "Expected a model whose answer for one row depends on that row, got one that "
                f"keeps something of the rows before: {proof.state_faults[0]}. Remove that layer."
            )
        if not proof.holds:
            return 1
    return batch_size
