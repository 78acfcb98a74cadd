"""Constants that are folded have the value that TensorFlow computes."""

import numpy as np
import tensorflow as tf

from tests.each import each
from tfdpnorm.independence.verification.constants import Constants
from tfdpnorm.keras_compat.plain_graphs import plain_graph

A, B = np.array([[3, -4, 5], [1, 2, -7]]), np.array([2, -3, 4])

FUNCTIONS = {
    "shape": lambda a, b: tf.shape(a),
    "size": lambda a, b: tf.size(a),
    "rank": lambda a, b: tf.rank(a),
    "shape_part": lambda a, b: tf.shape(a)[1:],
    "zeros": lambda a, b: tf.zeros_like(a) + tf.ones_like(a),
    "add": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b,
    "floor_division": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "maximum": lambda a, b: tf.maximum(a, b) + tf.minimum(a, 1),
    "comparison": lambda a, b: (a > b) | (a == 1) & ~(a <= 0),
    "other_comparisons": lambda a, b: (a >= b) | (a < 0) | (a != b),
    "where": lambda a, b: tf.where(a > 0, a, b),
    "absolute": lambda a, b: tf.abs(a) + tf.sign(b) - (-a),
    "stack": lambda a, b: tf.stack([a[0], b], axis=1),
    "unstack": lambda a, b: tf.unstack(a, axis=1)[1],
    "concat": lambda a, b: tf.concat([a, a], axis=-1),
    "split": lambda a, b: tf.split(a, [1, 2], axis=1)[1],
    "split_evenly": lambda a, b: tf.split(a, 3, axis=1)[2],
    "strided": lambda a, b: a[::-1, tf.newaxis, ..., 1:],
    "strided_shrunk": lambda a, b: a[1, -1],
    "slice": lambda a, b: tf.slice(a, [0, 1], [-1, 2]),
    "reshape": lambda a, b: tf.reshape(a, [3, -1]),
    "expand": lambda a, b: tf.squeeze(tf.expand_dims(a, -1), [2]),
    "transpose": lambda a, b: tf.transpose(a, [1, 0]),
    "reverse": lambda a, b: tf.reverse(a, [1]),
    "tile": lambda a, b: tf.tile(a, [2, 1]),
    "fill": lambda a, b: tf.fill(tf.shape(a), b[0]),
    "broadcast": lambda a, b: tf.broadcast_to(b, [2, 3]),
    "broadcast_shape": lambda a, b: tf.broadcast_dynamic_shape(tf.shape(a), tf.shape(b)),
    "range": lambda a, b: tf.range(b[0], 12, b[2]),
    "gather": lambda a, b: tf.gather(a, [[2, 0]], axis=1),
    "stitch": lambda a, b: tf.dynamic_stitch([[0, 2], [1]], [b[:2], b[2:]]),
    "left_out": lambda a, b: tf.raw_ops.ListDiff(x=a[0], y=b)[0],
    "places_left": lambda a, b: tf.raw_ops.ListDiff(x=tf.range(5), y=b)[1],
    "invert": lambda a, b: tf.math.invert_permutation(tf.constant([2, 0, 1])),
    "sum": lambda a, b: tf.reduce_sum(a, 1, keepdims=True),
    "prod": lambda a, b: tf.reduce_prod(a, [0, 1]),
    "max": lambda a, b: tf.reduce_max(a, 0) - tf.reduce_min(a, -2),
    "all": lambda a, b: tf.reduce_all(a > 0, 1) | tf.reduce_any(a > 4, 1),
    "cast": lambda a, b: tf.cast(a > 0, tf.int64),
    "narrowed": lambda a, b: tf.cast(tf.cast(a, tf.int64) * 2**33 + 5, tf.int32),
}
PAIRS = [
    ([2, 3], [3]),
    ([2, 3], [2, 3]),
    ([1], [1]),
    ([1, 3], [2, 1]),
    ([4, 1, 5], [3, 1]),
    ([], [2]),
]
PAIRS += [([2, 1], [1, 1]), ([0, 1], [1]), ([1], [5, 0])]


@each("name", FUNCTIONS)
def test_the_value_is_that_of_tensorflow(name):
    function = tf.function(FUNCTIONS[name], autograph=False)
    arguments = [tf.constant(x, tf.int32) for x in (A, B)]
    concrete = function.get_concrete_function(*arguments)
    graph = plain_graph(concrete.graph).graph
    given = {id(t): np.asarray(v) for t, v in zip(graph.inputs, arguments, strict=True)}
    folded = Constants(given).of(graph.outputs[0])
    expected = concrete(*arguments).numpy()
    assert folded is not None
    assert folded.dtype == expected.dtype
    np.testing.assert_array_equal(folded, expected)


@each("shapes", PAIRS)
def test_axes_of_broadcast_gradients_are_those_of_tensorflow(shapes):
    with tf.Graph().as_default() as graph:
        arguments = [tf.constant(s, tf.int32) for s in shapes]
        outputs = tf.raw_ops.BroadcastGradientArgs(s0=arguments[0], s1=arguments[1])
        with tf.compat.v1.Session(graph=graph) as session:
            expected = session.run(outputs)
        plain = plain_graph(graph)
        for output, value in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(Constants().of(plain.tensor(output)), value)


def test_inputs_and_random_numbers_have_no_constant_value():
    def function(x):
        return x + 1, tf.random.uniform([2], 0, 5, tf.int32), tf.shape(x)

    concrete = tf.function(function).get_concrete_function(tf.TensorSpec([2], tf.int32))
    constants = Constants()
    outputs = plain_graph(concrete.graph).graph.outputs
    assert [constants.of(t) is None for t in outputs] == [True, True, False]
