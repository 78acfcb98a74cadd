"""Functions that depend on an example's position in the batch: each has its verdict, of rows.

By name: the function, the specs of its inputs, and the verdict. `constant` gives a row for each
position.
"""

import numpy as np
import tensorflow as tf

from tests.independence.verification.cases_of_values import FIRST, INTS, constant
from tests.independence.verification.perturbation import P, spec
from tfdpnorm.independence.verification.verdicts import Rows

T = P  # as many steps as examples, so that sizes tell no axis
PLACES = tf.constant(np.arange(P), tf.float32)
SOME = [[0, 1], [2, 2], [3, 0]]  # columns for each position
HALVES = np.arange(P) % 2 == 0
SCALE = tf.Variable(tf.random.stateless_uniform([P, 1], [1, 2]))
POSITIONS = tf.Variable(tf.random.stateless_uniform([T, 2], [3, 4]))


def looped(start, step):
    """Adds numbers to rows, turn by turn."""
    return lambda x: tf.while_loop(
        lambda i, y: i < P, lambda i, y: (i + 1, y + step(i, x)), [0, start(x)]
    )[1]


def written(element):
    """A list of rows and of a free element."""

    def function(x):
        array = tf.TensorArray(tf.float32, 2, element_shape=[P, 4])
        return array.write(0, x).write(1, element).stack()

    return function


def chosen(other):
    """Rows, or by a chance in a million something else."""
    return lambda x: tf.cond(tf.random.uniform([]) < 1e-9, lambda: other, lambda: x)


def backwards(weights):
    @tf.custom_gradient
    def function(x):
        return tf.identity(x), lambda dy: dy * weights

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(function(x) ** 2)
        return tape.gradient(y, x)

    return gradient


def transformed(transforms):
    return lambda x: tf.raw_ops.ImageProjectiveTransformV3(
        images=x,
        transforms=transforms,
        output_shape=[4, 4],
        fill_value=0.0,
        interpolation="BILINEAR",
    )


def normalized(scale):
    """Each row by its own moments, as Keras' layer normalisation does it."""
    return lambda x: tf.compat.v1.nn.fused_batch_norm(
        tf.reshape(x, [1, P, 4, 1]), scale, tf.zeros(P), data_format="NCHW"
    )[0]


def inferred(mean):
    """Fused normalisation by given moments; the examples are the channels."""
    return lambda x: tf.compat.v1.nn.fused_batch_norm(
        tf.reshape(tf.transpose(x), [1, 2, 2, P]),
        tf.ones(P),
        tf.zeros(P),
        mean,
        tf.ones(P),
        is_training=False,
    )[0]


def inferred_gradient(gradient):
    """By fused normalisation with given moments, of images that are the rows."""

    def function(x):
        moments = tf.zeros(2), tf.ones(2)
        y = tf.compat.v1.nn.fused_batch_norm(
            x, tf.ones(2), tf.zeros(2), *moments, is_training=False
        )[0]
        return tf.gradients(y, x, gradient)[0]

    return function


def selected(condition):
    return lambda x: tf.raw_ops.Select(condition=condition, x=x, y=-x)


def by_steps(weights):
    """A weight for each step, on [rows, steps, 2] or in one axis of rows and steps."""
    return lambda x: tf.reshape(tf.reshape(x, [P * T, 2]) * weights, [P, T, 2])


def scattered(tensor):
    """Columns of a tensor [4, P] are set."""
    return lambda x: tf.tensor_scatter_nd_update(tensor, [[1], [3]], tf.transpose(x)[:2])


def updated(updates):
    """Columns of rows are set, by updates [2, P]."""
    return lambda x: tf.tensor_scatter_nd_add(tf.transpose(x), [[1], [3]], updates)


IDS = spec(2, dtype=INTS)
POSITIONED = {
    "every_other_row": (lambda x: x * tf.cast(tf.range(P) % 2, x.dtype)[:, None], [spec(4)], FIRST),
    "learned_scale": (lambda x: x * SCALE, [spec(4)], FIRST),
    "without_the_first_row": (
        lambda x: x * tf.concat([tf.zeros([1, 1]), tf.ones([P - 1, 1])], 0),
        [spec(4)],
        FIRST,
    ),
    "the_place_itself": (lambda x: tf.concat([x, tf.one_hot(tf.range(P), P)], 1), [spec(4)], FIRST),
    "stacked": (lambda x: tf.stack([x, constant(P, 4)]), [spec(4)], Rows(1)),
    "batch_before": (lambda x: tf.concat([constant(2 * P, 4), x], 0), [spec(4)], Rows(0, 1, 3)),
    "where": (lambda x: tf.where(tf.constant(HALVES)[:, None], x, -x), [spec(4)], FIRST),
    "select_of_version_1": (selected(HALVES), [spec(4)], FIRST),
    "select_of_free_rows": (
        lambda x: tf.raw_ops.Select(condition=x[:, 0] > 0, x=x, y=constant(P, 4)),
        [spec(4)],
        FIRST,
    ),
    "bounds": (lambda x: tf.clip_by_value(x, -1.0, PLACES[:, None]), [spec(T)], FIRST),
    "batched_product": (lambda x: x @ constant(P, 4, 2), [spec(3, 4)], FIRST),
    "einsum": (lambda x: tf.einsum("bd,bdk->bk", x, constant(P, 4, 2)), [spec(4)], FIRST),
    "diagonal_of_free_numbers": (
        lambda x: tf.einsum("bd,bb->bd", x, constant(P, P)),
        [spec(4)],
        FIRST,
    ),
    "columns_by_place": (lambda x: tf.gather(x, SOME, batch_dims=1), [spec(4)], FIRST),
    "table_by_place": (lambda i: tf.gather(constant(P, 3, 4), i, batch_dims=1), [IDS], FIRST),
    "own_entry_by_a_range": (
        lambda i: tf.gather_nd(constant(P, 3), tf.stack([tf.range(P), i], 1)),
        [spec(dtype=INTS)],
        FIRST,
    ),
    "scattered_into": (scattered(constant(4, P)), [spec(4)], Rows(1)),
    "scattered_updates": (updated(constant(2, P)), [spec(4)], Rows(1)),
    "stitched": (
        lambda x: tf.dynamic_stitch([[0, 2], [1]], [tf.transpose(x), constant(1, P)]),
        [spec(2)],
        Rows(1),
    ),
    "summed_ones": (lambda x: x * tf.cumsum(tf.ones([P, 1])), [spec(4)], FIRST),
    "loop_over_places": (
        looped(tf.zeros_like, lambda i, x: x * tf.one_hot(i, P)[:, None] * tf.cast(i, x.dtype)),
        [spec(T)],
        FIRST,
    ),
    "loop_that_begins_uneven": (looped(lambda x: constant(P, 4), lambda i, x: x), [spec(4)], FIRST),
    "loop_that_becomes_uneven": (
        lambda x: (
            x
            * tf.while_loop(
                lambda i, y: i < 2, lambda i, y: (i + 1, y + constant(P, 1)), [0, tf.ones([P, 1])]
            )[1]
        ),
        [spec(4)],
        FIRST,
    ),
    "list": (written(constant(P, 4)), [spec(4)], Rows(1)),
    "in_a_function": (
        lambda x: tf.function(lambda y, w: y * w, autograph=False)(x, constant(P, 1)),
        [spec(4)],
        FIRST,
    ),
    "lengths": (
        lambda x: tf.reverse_sequence(x, [1, 2, 3], seq_axis=1, batch_axis=0),
        [spec(4)],
        FIRST,
    ),
    "lengths_of_rows": (
        lambda n: tf.reverse_sequence(constant(P, 4), n, seq_axis=1, batch_axis=0),
        [spec(dtype=INTS)],
        FIRST,
    ),
    "labels": (
        lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(P), x),
        [spec(P)],
        FIRST,
    ),
    "a_weight_for_each_entry": (by_steps(constant(P * T, 1)), [spec(T, 2)], FIRST),
    "positions": (
        lambda x: tf.transpose(tf.transpose(x, [1, 0, 2]) + POSITIONS, [1, 0, 2]),
        [spec(T, 2)],
        FIRST,
    ),
    "embedded_positions": (
        lambda x: x + tf.gather(POSITIONS, tf.range(P))[:, None],
        [spec(T, 2)],
        FIRST,
    ),
    "layer_of_positions": (
        lambda x: x + tf.nn.relu(POSITIONS @ constant(2, 2))[:, None],
        [spec(T, 2)],
        FIRST,
    ),
    "bias": (lambda x: tf.nn.bias_add(tf.transpose(x), constant(P)), [spec(4)], Rows(1)),
    "bias_on_channels": (
        lambda x: tf.nn.bias_add(x[None], constant(P), "NCHW"),
        [spec(4, 4)],
        Rows(1),
    ),
    "scale_of_channels": (normalized(constant(P)), [spec(4)], Rows(1)),
    "moments_of_channels": (inferred(constant(P)), [spec(4)], Rows(3)),
    "gradient_by_given_moments": (inferred_gradient(constant(P, 2, 2, 2)), [spec(2, 2, 2)], FIRST),
    "transforms": (transformed(constant(P, 8) / 9), [spec(4, 4, 1)], FIRST),
    "index_in_the_batch": (
        lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME", include_batch_in_index=True)[1],
        [spec(4, 4, 1)],
        FIRST,
    ),
    "gradient": (backwards(PLACES[:, None]), [spec(T)], FIRST),
    "cross_product": (lambda x: tf.linalg.cross(x, constant(P, 3)), [spec(3)], FIRST),
    "cross_product_from_the_left": (lambda x: tf.linalg.cross(constant(P, 3), x), [spec(3)], FIRST),
    "solved": (
        lambda x: tf.linalg.solve(9 * tf.eye(2) + constant(P, 2, 2), x),
        [spec(2, 1)],
        FIRST,
    ),
    "diagonal": (lambda x: tf.linalg.set_diag(x, constant(P, 3)), [spec(3, 3)], FIRST),
    "sign_of_zero": (lambda x: x / tf.constant([[0.0], [-0.0], [0.0]]), [spec(4)], FIRST),
    "public_numbers": (lambda x: x * tf.random.stateless_uniform([P, 1], [1, 2]), [spec(4)], FIRST),
    "chosen": (chosen(constant(P, 4)), [spec(4)], FIRST),
}
