"""Which tensors that depend on no example may be replaced by a copy for each example."""

import tensorflow as tf

from tests.each import each
from tests.independence.verification.perturbation import traced
from tfdpnorm.independence.broadcast import is_broadcast

ROWS = 5


@each(
    ("shape", "function", "expected"),
    [
        ([4], lambda x, t: x + t, True),
        ([1, 4], lambda x, t: x * t, True),
        ([1, 4], lambda x, t: x + tf.broadcast_to(t, [ROWS, 4]), True),
        ([1, 4], lambda x, t: x + tf.reduce_sum(tf.ones([3, 4]) * t, 0), False),
        ([ROWS, 4], lambda x, t: x + tf.reduce_sum(t, 0), False),
        ([1, 4], lambda x, t: x + tf.tile(t, [ROWS, 1]), False),
        ([3, 4], lambda x, t: x[:, None] + t, True),
        ([3, 4], lambda x, t: x + tf.reduce_sum(t, 0), False),
    ],
)
def test_only_what_is_added_or_multiplied_onto_rows_is_copied(shape, function, expected):
    found = []

    def traced_function(x):
        tensor = tf.identity(tf.ones(shape))
        found.append(tensor)
        return function(x, tensor)

    graph = traced(traced_function, [tf.TensorSpec([ROWS, 4])]).graph
    forward = {op.name for op in graph.get_operations()}
    assert is_broadcast(found[-1], ROWS, forward) == expected
