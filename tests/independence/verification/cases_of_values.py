"""Operations that compute, each with the verdict that is expected.

By name: the function, the specs of its inputs, and the verdict on its first output.
"""

import numpy as np
import tensorflow as tf

from tests.independence.verification.perturbation import P, spec
from tfdpnorm.independence.verification.verdicts import Rows

MIXED = "mixed"
FIRST = Rows(0)
INTS = tf.int32


def constant(*shape):
    """Numbers that are free."""
    return tf.constant(np.random.default_rng(sum(shape)).normal(size=shape), tf.float32)


def for_each(x):
    """A free tensor, once for each example."""
    return tf.tile(x[None], [P] + [1] * x.shape.rank)


BROADCASTS = {
    "with_a_weight": (lambda x: x + constant(4), [spec(4)], FIRST),
    "with_a_weight_of_higher_rank": (lambda x: x + constant(5, 1, 4), [spec(4)], Rows(1)),
    "with_a_row_for_each_place": (lambda x: x * constant(P, 4), [spec(4)], FIRST),
    "with_one_row_for_all": (lambda x: x * for_each(constant(4)), [spec(4)], FIRST),
    "two_of_rows": (lambda x, y: x + y, [spec(4), spec(4)], FIRST),
    "axis_of_size_1": (lambda x, y: x + y, [spec(4), spec(1)], FIRST),
    "each_with_every_other": (lambda x, y: x + y[:, 0], [spec(P), spec(1)], MIXED),
    "pairwise": (lambda x: x[:, None] - x[None], [spec(4)], MIXED),
    "maximum": (lambda x: tf.maximum(x, 0.0), [spec(4)], FIRST),
    "compared": (lambda x: x > 0, [spec(4)], FIRST),
    "cast": (lambda x: tf.cast(x, tf.int32), [spec(4, dtype=tf.bool)], FIRST),
    "where": (lambda x, y: tf.where(x > 0, x, y), [spec(4), spec(4)], FIRST),
    "where_by_rows": (lambda x: tf.where(x[:, :1] > 0, x, 0.0), [spec(4)], FIRST),
    "select_of_version_1": (
        lambda x, y: tf.raw_ops.Select(condition=x > 0, x=y, y=-y),
        [spec(), spec(4)],
        FIRST,
    ),
    "clip": (lambda x: tf.clip_by_value(x, -1.0, 1.0), [spec(4)], FIRST),
    "clip_by_another": (lambda x: tf.clip_by_value(x, -1.0, tf.reduce_max(x)), [spec(4)], MIXED),
    "add_n": (lambda x, y: tf.add_n([x, y, for_each(constant(4))]), [spec(4), spec(4)], FIRST),
    "identity": (lambda x: tf.stop_gradient(tf.identity(x)), [spec(4)], FIRST),
    "dropout": (lambda x: tf.nn.dropout(x, 0.5), [spec(4)], FIRST),
    "broadcast_to": (lambda x: tf.broadcast_to(x, [2, P, 4]), [spec(4)], Rows(1)),
    "one_scalar_for_all": (lambda x: x * tf.reduce_sum(x), [spec(4)], MIXED),
}
PRODUCTS = {
    "matmul": (lambda x: x @ constant(4, 2), [spec(4)], FIRST),
    "matmul_from_the_left": (lambda x: constant(2, P) @ x, [spec(4)], MIXED),
    "gram": (lambda x: tf.matmul(x, x, transpose_b=True), [spec(4)], MIXED),
    "moments": (lambda x: tf.matmul(x, x, transpose_a=True), [spec(4)], MIXED),
    "transposed": (lambda x: tf.matmul(constant(2, 4), x, transpose_b=True), [spec(4)], Rows(1)),
    "batch_matmul": (lambda x, y: x @ y, [spec(2, 4), spec(4, 2)], FIRST),
    "batch_matmul_broadcast": (lambda x: x @ constant(4, 2), [spec(2, 4)], FIRST),
    "batch_matmul_on_the_sum": (lambda x: constant(2, P) @ x, [spec(4)], MIXED),
    "tensordot": (lambda x: tf.tensordot(x, constant(4, 2), 1), [spec(5, 4)], FIRST),
    "einsum": (lambda x: tf.einsum("btd,dhk->bthk", x, constant(4, 2, 3)), [spec(5, 4)], FIRST),
    "einsum_ellipsis": (
        lambda x: tf.einsum("...d,dk->...k", x, constant(4, 2)),
        [spec(5, 4)],
        FIRST,
    ),
    "einsum_scores": (
        lambda x, y: tf.einsum("bth,bsh->bts", x, y),
        [spec(2, 4), spec(5, 4)],
        FIRST,
    ),
    "einsum_moves_the_batch": (lambda x: tf.einsum("btd->tbd", x), [spec(5, 4)], Rows(1)),
    "einsum_over_the_batch": (lambda x: tf.einsum("bd,bk->dk", x, x), [spec(4)], MIXED),
    "einsum_of_all_pairs": (lambda x: tf.einsum("bd,cd->bc", x, x), [spec(4)], MIXED),
    "einsum_diagonal": (lambda x: tf.einsum("bb->b", x), [spec(P)], MIXED),
}
REDUCTIONS = {
    "sum": (lambda x: tf.reduce_sum(x, 1), [spec(4, 2)], FIRST),
    "sum_before": (lambda x: tf.reduce_sum(tf.transpose(x), 0), [spec(4)], FIRST),
    "sum_kept": (lambda x: tf.reduce_sum(x, [1, 2], keepdims=True), [spec(4, 2)], FIRST),
    "sum_along_one_entry": (lambda x: tf.reduce_sum(x, [1, 3]), [spec(1, 4, 1)], FIRST),
    "sum_of_the_batch_for_each_step": (
        lambda x: tf.reduce_sum(tf.transpose(x, [1, 0, 2]), [1, 2]),
        [spec(2 * P, 1)],
        MIXED,
    ),
    "mean_of_the_batch": (lambda x: x - tf.reduce_mean(x, 0), [spec(4)], MIXED),
    "all": (lambda x: tf.reduce_all(x > 0), [spec(4)], MIXED),
    "argmax": (lambda x: tf.argmax(x, -1), [spec(4)], FIRST),
    "argmax_of_the_batch": (lambda x: tf.argmax(x, 0), [spec(4)], MIXED),
    "softmax": (lambda x: tf.nn.softmax(x), [spec(4)], FIRST),
    "softmax_over_the_batch": (lambda x: tf.nn.softmax(x, axis=0), [spec(4)], MIXED),
    "softmax_of_a_vector": (lambda x: tf.nn.log_softmax(x), [spec()], MIXED),
    "cumsum": (lambda x: tf.cumsum(x, axis=1), [spec(4)], FIRST),
    "cumsum_over_the_batch": (lambda x: tf.cumsum(x, axis=0), [spec(4)], MIXED),
    "top_k": (lambda x: tf.math.top_k(x, 2).indices, [spec(4)], FIRST),
    "top_k_of_the_batch": (lambda x: tf.math.top_k(x, 2).values, [spec()], MIXED),
    "sort": (lambda x: tf.sort(x, axis=1), [spec(4)], FIRST),
    "sort_of_the_batch": (lambda x: tf.sort(x, axis=0), [spec(4)], MIXED),
    "l2_normalize": (lambda x: tf.math.l2_normalize(x, -1), [spec(4)], FIRST),
    "l2_normalize_of_all": (lambda x: tf.math.l2_normalize(x), [spec(4)], MIXED),
    "reverse": (lambda x: tf.reverse(x, [1]), [spec(4)], FIRST),
    "reverse_of_the_batch": (lambda x: tf.reverse(x, [0]), [spec(4)], MIXED),
    "roll": (lambda x: tf.roll(x, 1, 1), [spec(4)], FIRST),
    "roll_of_the_batch": (lambda x: tf.roll(x, 1, 0), [spec(4)], MIXED),
    "roll_by_an_example": (lambda x: tf.roll(x, tf.cast(x[0, 0], INTS), 1), [spec(4)], MIXED),
    "reverse_sequence": (
        lambda x, n: tf.reverse_sequence(x, n, seq_axis=1, batch_axis=0),
        [spec(4), spec(dtype=INTS)],
        FIRST,
    ),
    "reverse_sequence_of_the_batch": (
        lambda x: tf.reverse_sequence(x, [1, 2, 3, 2], seq_axis=0, batch_axis=1),
        [spec(4)],
        MIXED,
    ),
    "local_response": (lambda x: tf.nn.lrn(x), [spec(4, 4, 2)], FIRST),
    "shuffle": (lambda x: tf.random.shuffle(x), [spec(4)], MIXED),
    "fft": (lambda x: tf.signal.rfft(x), [spec(4)], FIRST),
    "cholesky": (
        lambda x: tf.linalg.cholesky(x @ tf.transpose(x, [0, 2, 1]) + 9 * tf.eye(2)),
        [spec(2, 2)],
        FIRST,
    ),
    "band_part": (lambda x: tf.linalg.band_part(x, -1, 0), [spec(4, 4)], FIRST),
    "band_part_over_the_batch": (lambda x: tf.linalg.band_part(x, -1, 0), [spec(P)], MIXED),
    "diagonal": (lambda x: tf.linalg.diag(x), [spec(4)], FIRST),
    "diagonal_of_examples": (lambda x: tf.linalg.diag(x), [spec()], MIXED),
    "diagonal_part": (lambda x: tf.linalg.diag_part(x), [spec(4, 4)], FIRST),
}
IMAGES = {
    "conv": (lambda x: tf.nn.conv2d(x, constant(2, 2, 1, 3), 1, "SAME"), [spec(4, 4, 1)], FIRST),
    "conv_dilated": (
        lambda x: tf.nn.conv2d(x, constant(2, 2, 1, 3), 1, "SAME", dilations=2),
        [spec(4, 4, 1)],
        FIRST,
    ),
    "conv_of_the_batch": (
        lambda x: tf.nn.conv2d(tf.transpose(x, [1, 0, 2, 3]), constant(2, 2, 1, 3), 1, "SAME"),
        [spec(4, 4, 1)],
        MIXED,
    ),
    "conv_by_examples": (
        lambda x: tf.nn.conv2d(tf.ones([1, 4, 4, 1]), x[..., None], 1, "SAME"),
        [spec(2, 1)],
        MIXED,
    ),
    "conv_1d": (lambda x: tf.nn.conv1d(x, constant(2, 1, 3), 1, "SAME"), [spec(4, 1)], FIRST),
    "conv_3d": (
        lambda x: tf.nn.conv3d(x, constant(2, 2, 2, 1, 2), [1] * 5, "SAME"),
        [spec(3, 3, 3, 1)],
        FIRST,
    ),
    "depthwise_dilated": (
        lambda x: tf.nn.depthwise_conv2d(
            x, constant(2, 2, 2, 1), [1] * 4, "SAME", dilations=[2, 2]
        ),
        [spec(4, 4, 2)],
        FIRST,
    ),
    "transposed_conv": (
        lambda x: tf.nn.conv2d_transpose(x, constant(2, 2, 3, 1), [P, 8, 8, 3], 2),
        [spec(4, 4, 1)],
        FIRST,
    ),
    "max_pool": (lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), [spec(4, 4, 2)], FIRST),
    "average_pool": (lambda x: tf.nn.avg_pool2d(x, 2, 2, "SAME"), [spec(4, 4, 2)], FIRST),
    "resize": (lambda x: tf.image.resize(x, [7, 5]), [spec(4, 4, 2)], FIRST),
    "contrast": (lambda x: tf.image.adjust_contrast(x, 2.0), [spec(4, 4, 2)], FIRST),
    "contrast_of_the_batch": (
        lambda x: tf.image.adjust_contrast(x, 2.0),
        [spec(4, 2)],
        MIXED,
    ),
    "patches": (
        lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1] * 4, [1] * 4, "SAME"),
        [spec(4, 4, 2)],
        FIRST,
    ),
    "fused_normalization_in_training": (
        lambda x: tf.compat.v1.nn.fused_batch_norm(x, tf.ones(2), tf.zeros(2))[0],
        [spec(4, 4, 2)],
        MIXED,
    ),
    "fused_normalization_in_inference": (
        lambda x: tf.compat.v1.nn.fused_batch_norm(
            x, tf.ones(2), tf.zeros(2), tf.zeros(2), tf.ones(2), is_training=False
        )[0],
        [spec(4, 4, 2)],
        FIRST,
    ),
    "fused_normalization_of_each_row": (
        lambda x: tf.compat.v1.nn.fused_batch_norm(
            tf.reshape(x, [1, P * 4, 2, 1]), tf.ones(12), tf.zeros(12), data_format="NCHW"
        )[0],
        [spec(4, 2)],
        Rows(1, 4),
    ),
    "cross_entropy": (
        lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(y, x),
        [spec(4), spec(dtype=INTS)],
        FIRST,
    ),
    "cross_entropy_of_the_transpose": (
        lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.transpose(x), tf.transpose(x)),
        [spec(P)],
        MIXED,
    ),
}
