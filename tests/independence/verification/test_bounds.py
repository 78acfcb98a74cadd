"""No entry of a tensor of integers is outside the bounds that the graph gives it."""

import numpy as np
import tensorflow as tf

from tests.each import each
from tfdpnorm.independence.verification.bounds import Bounds
from tfdpnorm.independence.verification.constants import Constants
from tfdpnorm.keras_compat.plain_graphs import plain_graph

ROWS = tf.TensorSpec([3, 4], tf.int32)
FLOATS = tf.TensorSpec([3, 4], tf.float32)
BYTES = tf.TensorSpec([3, 4], tf.uint8)
LONG = tf.TensorSpec([3, 4], tf.int64)
HUGE = 2**31 - 1

# By name: the function, its input, and the bounds of all entries together; None: those of the type.
FUNCTIONS = {
    "anything": (lambda x: x, ROWS, None),
    "remainder": (lambda x: x % 5, ROWS, (0, 4)),
    "remainder_of_a_vector": (lambda x: x % tf.constant([1, 2, 3, 4]), ROWS, (0, 3)),
    "remainder_by_what_may_be_negative": (lambda x: x % -3, ROWS, None),
    "remainder_by_itself": (lambda x: x % tf.maximum(x, 2), ROWS, (0, HUGE - 1)),
    "remainder_of_a_small_number": (lambda x: (x % 3 + 1) % 5, ROWS, (1, 3)),
    "remainder_of_what_may_be_negative": (lambda x: (x % 3 - 2) % 5, ROWS, (0, 4)),
    "remainder_of_a_larger_number": (lambda x: (x % 5 + 1) % 5, ROWS, (0, 4)),
    "clipped": (lambda x: tf.clip_by_value(x, -2, 7), ROWS, (-2, 7)),
    "from_below": (lambda x: tf.maximum(x, 3), ROWS, (3, HUGE)),
    "from_below_and_more": (lambda x: tf.maximum(x, 3) + 1, ROWS, None),
    "sum": (lambda x: x % 5 + tf.range(4) * 10, ROWS, (0, 34)),
    "difference": (lambda x: x % 5 - x % 3, ROWS, (-2, 4)),
    "product": (lambda x: (x % 5 - 2) * (x % 3 - 2), ROWS, (-4, 4)),
    "product_that_overflows": (lambda x: (x % 65537) * (x % 65537), ROWS, None),
    "product_that_overflows_int64": (lambda x: (x % 2**62) * 4 % 7, LONG, (0, 6)),
    "sum_that_overflows_int64": (lambda x: tf.maximum(x, 2**62) + 2**62, LONG, None),
    "difference_that_overflows": (lambda x: tf.maximum(x, 0) - tf.minimum(x, 0), ROWS, None),
    "bytes": (lambda x: tf.cast(x, tf.int32) * 2, BYTES, (0, 510)),
    "bytes_that_wrap": (lambda x: x + tf.constant(200, tf.uint8), BYTES, None),
    "narrowed": (lambda x: tf.cast(x % 300, tf.uint8), ROWS, None),
    "narrowed_without_loss": (lambda x: tf.cast(x % 200, tf.uint8), ROWS, (0, 199)),
    "booleans": (lambda x: tf.cast(x > 0, tf.int32) * 3, ROWS, (0, 3)),
    "to_booleans": (lambda x: tf.cast(x, tf.bool), ROWS, (0, 1)),
    "from_floats": (lambda x: tf.cast(tf.clip_by_value(x, 0.0, 2.0), tf.int32), FLOATS, None),
    "places_of_the_largest": (lambda x: tf.math.top_k(x, 2).indices, FLOATS, (0, 3)),
    "values_of_the_largest": (lambda x: tf.math.top_k(x, 2).values, ROWS, None),
    "order": (lambda x: tf.argsort(x, axis=0), FLOATS, (0, 2)),
    "place_of_the_largest": (lambda x: tf.argmax(x, 0), FLOATS, (0, 2)),
    "place_of_the_smallest": (lambda x: tf.argmin(x, -1, tf.int32), FLOATS, (0, 3)),
    "largest": (lambda x: tf.reduce_max(x % 5, 1) + tf.reduce_min(x % 3), ROWS, (0, 6)),
    "stacked": (lambda x: tf.stack([x % 2, x % 9], -1), ROWS, (0, 8)),
    "joined": (lambda x: tf.concat([x % 2, x % 9 + 1], 1), ROWS, (0, 9)),
    "split": (lambda x: tf.split(x % tf.constant([1, 2, 30, 40]), 2, 1)[0], ROWS, (0, 1)),
    "split_unevenly": (
        lambda x: tf.split(x % tf.constant([1, 2, 30, 40]), [3, 1], 1)[0],
        ROWS,
        (0, 29),
    ),
    "unstacked": (lambda x: tf.unstack(x % tf.constant([1, 2, 3, 4]), axis=1)[1], ROWS, (0, 1)),
    "moved": (
        lambda x: tf.reverse(tf.transpose(tf.tile(x % 3, [1, 2]))[tf.newaxis, ::2], [1]),
        ROWS,
        (0, 2),
    ),
    "reshaped": (
        lambda x: tf.squeeze(tf.expand_dims(tf.reshape(x % 3, [4, -1]), 1), 1),
        ROWS,
        (0, 2),
    ),
    "broadcast": (lambda x: tf.broadcast_to(x[:, :1] % 3, [2, 3, 4]), ROWS, (0, 2)),
    "taken": (lambda x: tf.gather(x % tf.constant([1, 2, 3, 4]), [1, 0], axis=1), ROWS, (0, 1)),
    "taken_by_what_is_not_known": (lambda x: tf.gather(tf.range(4), x % 4), ROWS, None),
    "sliced": (
        lambda x: tf.slice(x % tf.constant([9, 2, 3, 4]), [0, 1], [-1, 2]),
        ROWS,
        (0, 2),
    ),
    "decided": (lambda x: tf.clip_by_value(x, 6, 6), ROWS, (6, 6)),
}


def graph_of(name):
    function, spec, expected = FUNCTIONS[name]
    concrete = tf.function(function, autograph=False).get_concrete_function(spec)
    return concrete, expected


@each("name", FUNCTIONS)
def test_the_bounds_are_as_narrow_as_expected(name):
    concrete, expected = graph_of(name)
    (output,) = concrete.graph.outputs
    low, high = Bounds(Constants()).of(plain_graph(concrete.graph).tensor(output))
    assert low.shape == high.shape == tuple(output.shape)
    expected = expected or (output.dtype.min, output.dtype.max)
    assert (low.min(), high.max()) == tuple(map(int, expected))


def extreme(spec, rng):
    """Numbers of all sizes, among them the ends of the type and what is no number."""
    if spec.dtype.is_floating:
        ends = [np.nan, np.inf, -np.inf, 1e30, 0.0, 0.5, -3.0]
        return rng.choice(ends, spec.shape).astype(np.float32)
    ends = [spec.dtype.min, spec.dtype.max, 0, 1, *rng.integers(0, 99, 4)]
    return rng.choice(np.array(ends, spec.dtype.as_numpy_dtype), spec.shape)


@each("name", FUNCTIONS)
def test_values_stay_within_their_bounds(name):
    concrete, _ = graph_of(name)
    low, high = Bounds(Constants()).of(plain_graph(concrete.graph).graph.outputs[0])
    rng = np.random.default_rng(0)
    for _ in range(50):
        x = extreme(FUNCTIONS[name][1], rng)
        found = concrete(tf.constant(x)).numpy().astype(np.int64)
        assert (low <= found).all() and (found <= high).all()


@each(
    "tensor",
    [
        lambda x: tf.cast(x, tf.float32),
        lambda x: tf.cast(x, tf.uint64),
        lambda x: tf.where(x > 0),
        lambda x: tf.as_string(x),
        lambda x: tf.zeros([2**20 + 1], tf.int32) + x[0, 0],
    ],
)
def test_other_tensors_have_no_bounds(tensor):
    concrete = tf.function(tensor, autograph=False).get_concrete_function(ROWS)
    (output,) = plain_graph(concrete.graph).graph.outputs
    bounds = Bounds(Constants())
    assert bounds.of(output) is None
    assert not bounds.decide(output)


def test_bounds_decide_where_the_lowest_is_the_highest():
    decided = tf.function(lambda x: tf.clip_by_value(x, 6, 6)).get_concrete_function(ROWS)
    other = tf.function(lambda x: tf.clip_by_value(x, 6, 7)).get_concrete_function(ROWS)
    outputs = [plain_graph(f.graph).graph.outputs[0] for f in (decided, other)]
    assert [Bounds(Constants()).decide(output) for output in outputs] == [True, False]
