"""Per-example independence of inference: what a private validation, or features, count on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from tfdpnorm.errors import PrivacyError
from tfdpnorm.independence.changed_state import changed_by
from tfdpnorm.independence.outputs import prove_outputs, traced_function

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def rows_apart(function: Callable, x: Any, batch_size: int) -> int:
    """Returns how many rows may be run together so that none changes the outputs of another.

    Args:
        function: From a structure of [rows, ...] to outputs of [rows, ...], in inference.
        x: Structure of arrays [N, ...], which are run `batch_size` at a time, and then the rest.
        batch_size: How many are wanted.

    Returns:
        `batch_size` if that is verified for the graph for so many rows; otherwise 1.

    Raises:
        ValueError: if the function keeps something of the rows before.
    """
    count = len(tf.nest.flatten(x)[0])
    for size in sorted({min(batch_size, count), count % batch_size} - {0}, reverse=True):
        specs = tf.nest.map_structure(
            lambda a, size=size: tf.TensorSpec([size, *a.shape[1:]], a.dtype), x
        )
        graph = traced_function(function, (specs,)).graph
        proof = prove_outputs(graph, size)
        # A count of the calls, too: rows that stand in a fixed order may not read their number.
        kept = [*proof.state_faults, *_written(graph)]
        if kept:
            raise PrivacyError(
                "The model keeps a value from earlier rows, on which later predictions depend: "
                f"{kept[0]}. Remove that layer."
            )
        if not proof.holds:
            return 1
    return batch_size


def _written(graph):
    """Descriptions of the operations that give variables new values, those that draw aside."""
    changes = [op for op, _ in changed_by(graph.get_operations())]
    return [f"{op.type} {op.name!r}" for op in changes if not op.type.startswith(("Rng", "State"))]
