"""Operations that move entries or decide what is run, each with the verdict that is expected.

By name: the function, the specs of its inputs, and the verdict on its first output.
"""

import tensorflow as tf

from tests.independence.verification.cases_of_values import (
    FIRST,
    INTS,
    MIXED,
    constant,
    for_each,
)
from tests.independence.verification.perturbation import P, spec
from tfdpnorm.independence.verification.verdicts import FREE, Rows

SHAPES = {
    "flatten": (lambda x: tf.reshape(x, [P, -1]), [spec(4, 2)], FIRST),
    "merged_into_the_batch": (lambda x: tf.reshape(x, [-1, 2]), [spec(4, 2)], Rows(0, 4)),
    "and_back": (lambda x: tf.reshape(tf.reshape(x, [-1, 2]), [P, 4, 2]), [spec(4, 2)], FIRST),
    "ones_before": (lambda x: tf.reshape(x, [1, 1, P, 4, 1]), [spec(4)], Rows(2)),
    "time_before": (
        lambda x: tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, 2]),
        [spec(4, 2)],
        Rows(0, 1, 4),
    ),
    "not_one_piece": (lambda x: tf.reshape(x, [2, P, 2]), [spec(4)], MIXED),
    "into_the_sizes": (lambda x: tf.reshape(x, [4, P]), [spec(4)], MIXED),
    "shape_of_itself": (lambda x: tf.reshape(x, tf.shape(x)), [spec(4, 2)], FIRST),
    "transpose": (lambda x: tf.transpose(x, [2, 0, 1]), [spec(4, 2)], Rows(1)),
    "transpose_of_rows_and_columns": (lambda x: tf.transpose(x), [spec(P)], Rows(1)),
    "expand_dims": (lambda x: tf.expand_dims(x, 0), [spec(4)], Rows(1)),
    "expand_dims_behind": (lambda x: tf.expand_dims(x, -1), [spec(4)], FIRST),
    "squeeze": (lambda x: tf.squeeze(x, -1), [spec(1)], FIRST),
    "squeeze_before": (lambda x: tf.squeeze(x[None], 0), [spec(4)], FIRST),
    "repeat": (lambda x: tf.repeat(x, 2, axis=0), [spec(4)], Rows(0, 2)),
    "tile": (lambda x: tf.tile(x, [1, 3]), [spec(4)], FIRST),
    "tile_of_the_batch": (lambda x: tf.tile(x, [2, 1]), [spec(4)], Rows(0, 1, 2)),
    "shape": (lambda x: tf.shape(x), [spec(4)], FREE),
    "zeros_like_of_a_mixture": (lambda x: tf.zeros_like(tf.cumsum(x)), [spec(4)], FREE),
    "shape_of_what_examples_choose": (
        lambda x: tf.shape(tf.boolean_mask(x, x > 0)),
        [spec(4)],
        MIXED,
    ),
    "random_numbers": (lambda x: tf.random.stateless_normal(tf.shape(x), [1, 2]), [spec(4)], FREE),
    "space_to_depth": (lambda x: tf.nn.space_to_depth(x, 2), [spec(4, 4, 1)], FIRST),
    "space_to_batch": (
        lambda x: tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]),
        [spec(4, 4, 1)],
        Rows(0, 1, 4),
    ),
    "space_to_batch_and_back": (
        lambda x: tf.raw_ops.BatchToSpaceND(
            input=tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]),
            block_shape=[2, 2],
            crops=[[0, 0], [0, 0]],
        ),
        [spec(4, 4, 1)],
        FIRST,
    ),
}
PARTS = {
    "slice": (lambda x: x[:, 1:3], [spec(4)], FIRST),
    "slice_before": (lambda x: tf.transpose(x)[0], [spec(4)], FIRST),
    "slice_with_steps": (lambda x: x[..., ::-2], [spec(4)], FIRST),
    "slice_of_new_axes": (lambda x: x[None, ..., None], [spec(4)], Rows(1)),
    "slice_of_the_batch": (lambda x: x[:2], [spec(4)], MIXED),
    "slice_of_the_whole_batch": (lambda x: x[:P], [spec(4)], FIRST),
    "one_example": (lambda x: x[0], [spec(4)], MIXED),
    "reversed": (lambda x: x[::-1], [spec(4)], MIXED),
    "shifted": (lambda x: tf.concat([x[1:], x[:1]], 0), [spec(4)], MIXED),
    "slice_by_an_example": (lambda x: x[:, : tf.cast(x[0, 0], INTS)], [spec(4)], MIXED),
    "slice_op": (lambda x: tf.slice(x, [0, 1], [-1, 2]), [spec(4)], FIRST),
    "slice_op_of_the_batch": (lambda x: tf.slice(x, [1, 0], [2, 4]), [spec(4)], MIXED),
    "split": (lambda x: tf.split(x, 2, axis=1)[1], [spec(4)], FIRST),
    "split_of_sizes": (lambda x: tf.split(x, [1, 3], axis=1), [spec(4)], FIRST),
    "split_of_the_batch": (lambda x: tf.split(x, 3, axis=0)[0], [spec(4)], MIXED),
    "unstack": (lambda x: tf.unstack(x, axis=1)[2], [spec(4)], FIRST),
    "unstack_of_the_batch": (lambda x: tf.unstack(x, axis=0)[0], [spec(4)], MIXED),
    "stack": (lambda x, y: tf.stack([x, y], axis=1), [spec(4), spec(4)], FIRST),
    "stack_before": (lambda x, y: tf.stack([x, y]), [spec(4), spec(4)], Rows(1)),
    "stack_with_constants": (lambda x: tf.stack([x, constant(P, 4)], 2), [spec(4)], FIRST),
    "stack_with_one_row": (lambda x: tf.stack([x, for_each(constant(4))], 2), [spec(4)], FIRST),
    "stack_of_other_axes": (lambda x: tf.stack([x, tf.transpose(x)], 2), [spec(P)], MIXED),
    "concat": (lambda x, y: tf.concat([x, y], 1), [spec(4), spec(2)], FIRST),
    "concat_with_constants": (lambda x: tf.concat([x, constant(P, 2)], 1), [spec(4)], FIRST),
    "concat_with_one_row": (lambda x: tf.concat([x, for_each(constant(2))], 1), [spec(4)], FIRST),
    "concat_of_the_batch": (lambda x, y: tf.concat([x, y], 0), [spec(4), spec(4)], Rows(0, 1, 2)),
    "siamese": (
        lambda x, y: tf.split(tf.nn.relu(tf.concat([x, y], 0)), 2, 0)[1],
        [spec(4), spec(4)],
        FIRST,
    ),
    "joined_with_constants": (lambda x: tf.concat([x, constant(2, 4)], 0), [spec(4)], MIXED),
    "joined_with_a_batch_of_constants": (
        lambda x: tf.concat([constant(P, 4), x], 0),
        [spec(4)],
        Rows(0, 1, 2),
    ),
    "joined_with_a_batch_of_one_row": (
        lambda x: tf.concat([for_each(constant(4)), x], 0),
        [spec(4)],
        Rows(0, 1, 2),
    ),
    "pad": (lambda x: tf.pad(x, [[0, 0], [1, 2]]), [spec(4)], FIRST),
    "pad_mirrored": (lambda x: tf.pad(x, [[0, 0], [1, 2]], "REFLECT"), [spec(4)], FIRST),
    "pad_of_the_batch": (lambda x: tf.pad(x, [[1, 0], [0, 0]]), [spec(4)], MIXED),
    "pad_of_a_whole_batch": (lambda x: tf.pad(x, [[P, 0], [0, 0]]), [spec(4)], Rows(0, 1, 2)),
}
LOOKUPS = {
    "embedding": (lambda i: tf.gather(constant(3, 4), i), [spec(2, dtype=INTS)], FIRST),
    "embedding_on_the_second_axis": (
        lambda i: tf.gather(constant(2, 3), i, axis=1),
        [spec(dtype=INTS)],
        Rows(1),
    ),
    "columns": (lambda x: tf.gather(x, [2, 0, 0], axis=1), [spec(4)], FIRST),
    "columns_before": (lambda x: tf.gather(tf.transpose(x), [[2, 0]], axis=0), [spec(4)], Rows(2)),
    "examples": (lambda x: tf.gather(x, [2, 1, 0]), [spec(4)], MIXED),
    "examples_in_order": (lambda x: tf.gather(x, tf.argsort(x[:, 0])), [spec(4)], MIXED),
    "by_own_index": (
        lambda x, i: tf.gather(x, i, batch_dims=1),
        [spec(4, 2), spec(5, dtype=INTS)],
        FIRST,
    ),
    "by_the_index_of_others": (
        lambda x, i: tf.gather(x, i, axis=1),
        [spec(4), spec(dtype=INTS)],
        MIXED,
    ),
    "gather_nd_of_constants": (
        lambda i: tf.gather_nd(constant(3, 3, 4), i),
        [spec(5, 2, dtype=INTS)],
        FIRST,
    ),
    "gather_nd_of_columns": (
        lambda x: tf.gather_nd(tf.transpose(x, [1, 2, 0]), [[0, 1]]),
        [spec(4, 2)],
        Rows(1),
    ),
    "gather_nd_of_examples": (lambda x: tf.gather_nd(x, [[0], [1]]), [spec(4)], MIXED),
    "one_hot": (lambda i: tf.one_hot(i, 4), [spec(2, dtype=INTS)], FIRST),
    "one_hot_before": (lambda i: tf.one_hot(i, 4, axis=0), [spec(2, dtype=INTS)], Rows(1)),
    "segments_of_columns": (
        lambda x: tf.math.unsorted_segment_sum(tf.transpose(x), [0, 1, 0, 1], 2),
        [spec(4)],
        Rows(1),
    ),
    "segments_of_examples": (
        lambda x, i: tf.math.unsorted_segment_sum(x, i, 3),
        [spec(4), spec(dtype=INTS)],
        MIXED,
    ),
    "scatter_of_columns": (
        lambda x: tf.scatter_nd([[1], [0], [3], [2]], tf.transpose(x), [5, P]),
        [spec(4)],
        Rows(1),
    ),
    "scatter_of_examples": (lambda x: tf.scatter_nd([[1], [0], [2]], x, [3, 4]), [spec(4)], MIXED),
    "unique": (lambda i: tf.unique(i).idx, [spec(dtype=INTS)], MIXED),
    "where_indices": (lambda x: tf.where(x > 0), [spec(4)], MIXED),
    "counts": (lambda i: tf.math.bincount(i, minlength=3), [spec(dtype=INTS)], MIXED),
}
CONTROL = {
    "call": (lambda x: tf.function(lambda y: y * 2, autograph=False)(x), [spec(4)], FIRST),
    "call_with_axes": (
        lambda x: tf.function(lambda y, a: tf.reduce_sum(y, a), autograph=False)(x, tf.constant(1)),
        [spec(4)],
        FIRST,
    ),
    "condition_on_size": (
        lambda x: tf.cond(tf.shape(x)[0] > 2, lambda: x - tf.reduce_mean(x, 0), lambda: x),
        [spec(4)],
        MIXED,
    ),
    "condition_on_size_that_is_not_met": (
        lambda x: tf.cond(tf.shape(x)[0] > 7, lambda: x - tf.reduce_mean(x, 0), lambda: x),
        [spec(4)],
        FIRST,
    ),
    "condition_on_chance": (
        lambda x: tf.cond(tf.random.uniform([]) < 0.5, lambda: x, lambda: 2 * x),
        [spec(4)],
        FIRST,
    ),
    "condition_on_chance_that_reverses": (
        lambda x: tf.cond(tf.random.uniform([]) < 1e-9, lambda: x[::-1], lambda: x),
        [spec(4)],
        MIXED,
    ),
    "condition_on_values": (
        lambda x: tf.cond(tf.reduce_max(x) > 1e6, lambda: 0 * x, lambda: x),
        [spec(4)],
        MIXED,
    ),
    "case": (
        lambda x: tf.switch_case(tf.constant(1), [lambda: tf.cumsum(x), lambda: x]),
        [spec(4)],
        FIRST,
    ),
    "loop": (
        lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x])[1],
        [spec(4)],
        FIRST,
    ),
    "loop_from_constants": (
        lambda x: tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, y + x[:, i]), [0, tf.zeros([P])]
        )[1],
        [spec(4)],
        FIRST,
    ),
    "loop_that_mixes_in_the_end": (
        lambda x: tf.while_loop(
            lambda i, a, b, c: i < 3,
            lambda i, a, b, c: (i + 1, b, c, tf.cumsum(c)),
            [0, tf.zeros([P, 4]), tf.zeros([P, 4]), x],
        )[1],
        [spec(4)],
        MIXED,
    ),
    "loop_until_a_value": (
        lambda x: tf.while_loop(
            lambda y: tf.reduce_sum(y) < 9, lambda y: (y + 1.0,), [x], maximum_iterations=5
        )[0],
        [spec(4)],
        MIXED,
    ),
    "loop_of_arrays": (
        lambda x: tf.scan(lambda a, b: a + b, tf.transpose(x, [1, 0, 2])),
        [spec(4, 2)],
        Rows(1),
    ),
    "map_over_steps": (lambda x: tf.map_fn(lambda y: y * 2, tf.transpose(x)), [spec(4)], Rows(1)),
    "map_over_examples": (lambda x: tf.map_fn(lambda y: y * 2, x), [spec(4)], MIXED),
    "vectorized_map": (
        lambda x: tf.vectorized_map(lambda y: tf.reduce_sum(y * 2), x),
        [spec(4)],
        FIRST,
    ),
    "python": (lambda x: tf.numpy_function(lambda y: y, [x], tf.float32), [spec(4)], MIXED),
}
