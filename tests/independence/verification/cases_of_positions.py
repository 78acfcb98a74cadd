"""Functions that depend on an example's position in the batch: each has its verdict, of rows.

By name: the function, the specs of its inputs, and the verdict. `constant` gives a row for each
position.
"""

import numpy as np
import tensorflow as tf

from tests.independence.verification.cases_of_values import FIRST, INTS, constant
from tests.independence.verification.perturbation import P, spec
from tfdpnorm.independence.verification.verdicts import Rows

SOME = [[0, 1], [2, 2], [3, 0]]  # columns for each position
HALVES = np.arange(P) % 2 == 0


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


def scattered(tensor):
    """Columns of a tensor [4, P] are set."""
    return lambda x: tf.tensor_scatter_nd_update(tensor, [[1], [3]], tf.transpose(x)[:2])


def updated(updates):
    """Columns of rows are set, by updates [2, P]."""
    return lambda x: tf.tensor_scatter_nd_add(tf.transpose(x), [[1], [3]], updates)


IDS = spec(2, dtype=INTS)
POSITIONED = {
    "stacked": (lambda x: tf.stack([x, constant(P, 4)]), [spec(4)], Rows(1)),
    "batch_before": (lambda x: tf.concat([constant(2 * P, 4), x], 0), [spec(4)], Rows(0, 1, 3)),
    "select_of_version_1": (selected(HALVES), [spec(4)], FIRST),
    "select_of_free_rows": (
        lambda x: tf.raw_ops.Select(condition=x[:, 0] > 0, x=x, y=constant(P, 4)),
        [spec(4)],
        FIRST,
    ),
    "batched_product": (lambda x: x @ constant(P, 4, 2), [spec(3, 4)], FIRST),
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
    "loop_that_begins_uneven": (looped(lambda x: constant(P, 4), lambda i, x: x), [spec(4)], FIRST),
    "list": (written(constant(P, 4)), [spec(4)], Rows(1)),
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
    "cross_product": (lambda x: tf.linalg.cross(x, constant(P, 3)), [spec(3)], FIRST),
    "cross_product_from_the_left": (lambda x: tf.linalg.cross(constant(P, 3), x), [spec(3)], FIRST),
    "solved": (
        lambda x: tf.linalg.solve(9 * tf.eye(2) + constant(P, 2, 2), x),
        [spec(2, 1)],
        FIRST,
    ),
    "diagonal": (lambda x: tf.linalg.set_diag(x, constant(P, 3)), [spec(3, 3)], FIRST),
    "chosen": (chosen(constant(P, 4)), [spec(4)], FIRST),
}
