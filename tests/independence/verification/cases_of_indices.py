"""Operations along the axis of the examples by index, each with the verdict that is expected.

By name: the function, the specs of its inputs, and the verdict on its first output.
"""

import tensorflow as tf

from tests.independence.verification.cases_of_values import FIRST, INTS, MIXED, constant
from tests.independence.verification.perturbation import P, spec
from tfdpnorm.independence.verification.verdicts import FREE, Rows

raw = tf.raw_ops
NUMBERS = tf.range(P)
I5 = spec(5, dtype=INTS)
ONE = spec(dtype=INTS)
# Huge numbers, and those that stand for no number.
FAR = tf.cast(tf.constant(2**31 - 1), INTS)


def flat(x):
    """[P, 4, ...] to [P * 4, ...]."""
    return tf.reshape(x, [-1, *x.shape[2:]])


def pairs(i):
    """[P, 2]: the number of an example, and what it says."""
    return tf.stack([NUMBERS, i], 1)


def own(i, steps=4):
    """Ids [P, n] below `steps` as places among all entries of all examples."""
    return i % steps + steps * NUMBERS[:, tf.newaxis]


def numbers(x):
    """Finite and small ones: of others kernels end the run."""
    return tf.where(tf.abs(x) < 1e6, x, 0.0)


INDICES = {
    "the_example_before": (lambda x: tf.gather(x, NUMBERS - 1), [spec(4)], MIXED),
    "the_example_itself": (lambda x: tf.gather(x, (NUMBERS + P) % P), [spec(4)], FIRST),
    "the_example_before_by_pairs": (
        lambda x, i: tf.gather_nd(x, tf.stack([(NUMBERS - 1) % P, i % 4], 1)),
        [spec(4, 2), ONE],
        MIXED,
    ),
    "in_an_order_of_chance": (lambda x: tf.gather(x, tf.random.shuffle(NUMBERS)), [spec(4)], MIXED),
    "a_step_by_chance": (
        lambda x: tf.gather(x, tf.random.uniform([P, 2], 0, 4, INTS), batch_dims=1),
        [spec(4)],
        FIRST,
    ),
    "put_one_further": (
        lambda x: tf.scatter_nd(((NUMBERS + 1) % P)[:, None], x, [P, 4]),
        [spec(4)],
        MIXED,
    ),
    "added_one_further": (
        lambda x: tf.tensor_scatter_nd_add(x, ((NUMBERS + 1) % P)[:, None], x),
        [spec(4)],
        MIXED,
    ),
    "added_to_itself": (
        lambda x: tf.tensor_scatter_nd_add(x, NUMBERS[:, None], x),
        [spec(4)],
        FIRST,
    ),
    "segments_of_two_examples": (
        lambda x: tf.math.unsorted_segment_sum(x, NUMBERS // 2, P),
        [spec(4)],
        MIXED,
    ),
    "weighed_by_a_matrix_of_positions": (lambda x: tf.eye(P) @ x, [spec(4)], MIXED),
    "flat_places": (lambda x, i: tf.gather(flat(x), own(i)), [spec(4, 2), I5], FIRST),
    "flat_places_that_may_be_others": (
        lambda x, i: tf.gather(flat(x), own(i, 5) % 12),
        [spec(4, 2), I5],
        MIXED,
    ),
    "flat_places_that_reach_the_next": (
        lambda x, i: tf.gather(flat(x), tf.minimum(own(i, 5) - NUMBERS[:, tf.newaxis], 11)),
        [spec(4, 2), I5],
        MIXED,
    ),
    "flat_places_without_a_bound": (
        lambda x, i: tf.gather(flat(x), tf.minimum(i, 3) + 4 * NUMBERS[:, tf.newaxis]),
        [spec(4, 2), I5],
        MIXED,
    ),
    "flat_places_that_overflow": (
        lambda x, i: tf.gather(flat(x), tf.maximum(FAR + i, 0) % 1 + own(i)),
        [spec(4, 2), I5],
        FIRST,
    ),
    "flat_places_of_the_next": (
        lambda x, i: tf.gather(flat(x), (own(i) + 4) % 12),
        [spec(4, 2), I5],
        MIXED,
    ),
    # On a CPU such a lookup ends the run; elsewhere nobody knows what it gives.
    "places_before_the_first": (
        lambda x, i: tf.gather(flat(x), own(i) - 12),
        [spec(4, 2), I5],
        MIXED,
    ),
    "places_behind_the_last": (
        lambda x, i: tf.gather(flat(x), own(i) + 12),
        [spec(4, 2), I5],
        MIXED,
    ),
    "repeated_by_index": (
        lambda x: tf.gather(x, [0, 0, 1, 1, 2, 2]),
        [spec(4)],
        Rows(0, 2),
    ),
    "tiled_by_index": (lambda x: tf.gather(x, [0, 1, 2, 0, 1, 2]), [spec(4)], Rows(0, 1, 2)),
    "some_examples": (lambda x: tf.gather(x, [0, 0, 1]), [spec(4)], MIXED),
    "first_example": (lambda x: tf.gather(x, [0, 0, 0]), [spec(4)], MIXED),
    "repeated_unequally": (lambda x: tf.gather(x, [0, 1, 1, 2, 2, 0]), [spec(4)], MIXED),
    "own_step": (lambda x, i: tf.gather_nd(x, pairs(i % 4)), [spec(4, 2), ONE], FIRST),
    "step_of_the_one_before": (
        lambda x, i: tf.gather_nd(x, tf.stack([tf.maximum(NUMBERS - 1, 0), i % 4], 1)),
        [spec(4, 2), ONE],
        MIXED,
    ),
    "step_of_an_example_by_its_id": (
        lambda x, i: tf.gather_nd(x, tf.stack([i % P, NUMBERS], 1)),
        [spec(4, 2), ONE],
        MIXED,
    ),
    "gather_nd_batch": (
        lambda x, i: tf.gather_nd(x, i[:, None] % 4, batch_dims=1),
        [spec(4, 2), ONE],
        FIRST,
    ),
    "largest": (lambda x: tf.math.top_k(x, 2).values, [spec(5, 4)], FIRST),
    "largest_by_places": (
        lambda x: tf.gather(x, tf.math.top_k(x[..., 0], 2).indices, batch_dims=1),
        [spec(5, 4)],
        FIRST,
    ),
    "maximum_by_place": (
        lambda x: tf.gather(x, tf.argmax(x[..., 0], 1), batch_dims=1),
        [spec(5, 4)],
        FIRST,
    ),
    "sorted_by_itself": (lambda x: tf.gather(x, tf.argsort(x), batch_dims=1), [spec(4)], FIRST),
    "put_at_own_places": (
        lambda x, i: tf.scatter_nd(own(i)[..., None], x, [12]),
        [spec(5), I5],
        Rows(0, 4),
    ),
    "put_in_own_rows": (
        lambda x, i: tf.scatter_nd(pairs(i % 4), x, [P, 4, 2]),
        [spec(2), ONE],
        FIRST,
    ),
    "put_in_rows_of_others": (
        lambda x, i: tf.scatter_nd(tf.stack([i % P, NUMBERS], 1), x, [P, P, 2]),
        [spec(2), ONE],
        # Entry [:, i] belongs to example i.
        Rows(1),
    ),
    "put_in_a_common_row": (
        lambda x, i: tf.scatter_nd(tf.stack([i % P, 0 * i], 1), x, [P, P, 2]),
        [spec(2), ONE],
        MIXED,
    ),
    "ones_put_at_own_places": (
        lambda i: tf.scatter_nd(own(i)[..., None], tf.ones([P, 5]), [12]),
        [I5],
        Rows(0, 4),
    ),
    "put_at_places_of_all": (
        lambda x, i: tf.scatter_nd(i[..., None] % 12, x, [12]),
        [spec(5), I5],
        MIXED,
    ),
    "segments_of_its_own": (
        lambda x, i: tf.math.unsorted_segment_max(flat(x), flat(own(i)), 12),
        [spec(5, 2), I5],
        Rows(0, 4),
    ),
    "segments_that_are_shared": (
        lambda x, i: tf.math.unsorted_segment_sum(flat(x), flat(own(i, 5)) % 12, 12),
        [spec(5, 2), I5],
        MIXED,
    ),
    "segments_in_blocks_of_another_size": (
        lambda x, i: tf.math.unsorted_segment_sum(flat(x), flat(own(i)), 15),
        [spec(5, 2), I5],
        MIXED,
    ),
    "updated_at_its_own": (
        lambda x, i: tf.tensor_scatter_nd_update(x, pairs(i % 4), tf.zeros([P, 2])),
        [spec(4, 2), ONE],
        FIRST,
    ),
    "updated_by_itself": (
        lambda x, i: tf.tensor_scatter_nd_add(x, pairs(i % 4), x[:, 0]),
        [spec(4, 2), ONE],
        FIRST,
    ),
    "updated_across": (
        lambda x: tf.tensor_scatter_nd_add(tf.transpose(x), NUMBERS[:, None], x),
        [spec(P)],
        MIXED,
    ),
    "updated_at_an_example": (
        lambda x, i: tf.tensor_scatter_nd_update(x, i[:, None] % P, x),
        [spec(4), ONE],
        MIXED,
    ),
    "one_bin_count_for_each": (
        lambda i: tf.math.bincount(i, minlength=4, maxlength=4, axis=-1),
        [I5],
        FIRST,
    ),
    "weighted_bin_count_for_each": (
        lambda i, x: tf.math.bincount(i, weights=x, minlength=4, maxlength=4, axis=-1),
        [I5, spec(5)],
        FIRST,
    ),
    "bin_counts_as_many_as_the_largest": (lambda i: tf.math.bincount(i, axis=-1), [I5], MIXED),
    "bin_counts_at_least": (lambda i: tf.math.bincount(i, minlength=4, axis=-1), [I5], MIXED),
    "counted_together": (
        lambda i: tf.math.bincount(i, minlength=4, maxlength=4),
        [I5],
        MIXED,
    ),
    "counts_for_each_column": (
        lambda i: tf.math.bincount(tf.transpose(i), minlength=4, maxlength=4, axis=-1),
        [I5],
        MIXED,
    ),
    "a_size_that_is_decided": (
        lambda i: tf.zeros([2]) + tf.cast(tf.clip_by_value(tf.reduce_max(i), 4, 4), tf.float32),
        [I5],
        FREE,
    ),
    "a_size_that_is_not": (
        lambda i: tf.zeros([2]) + tf.cast(tf.clip_by_value(tf.reduce_max(i), 1, 2), tf.float32),
        [I5],
        MIXED,
    ),
    "columns_by_the_places_of_others": (
        lambda x: tf.gather(x, tf.math.top_k(tf.transpose(x), 1).indices[:, 0], axis=0),
        [spec(4)],
        MIXED,
    ),
    "drawn_classes": (
        lambda x: tf.random.stateless_categorical(x, 5, [1, 2]),
        [spec(4)],
        FIRST,
    ),
    "drawn_examples": (
        lambda x: tf.random.stateless_categorical(tf.transpose(x), P, [1, 2]),
        [spec(4)],
        MIXED,
    ),
    "put_by_constants": (
        lambda x: tf.scatter_nd([[0], [1], [1], [0], [3], [2]], tf.repeat(x, 2, 0), [6, 4]),
        [spec(4)],
        MIXED,
    ),
    "put_by_constants_at_home": (
        lambda x: tf.scatter_nd([[1], [0], [3], [2], [5], [4]], tf.repeat(x, 2, 0), [6, 4]),
        [spec(4)],
        Rows(0, 2),
    ),
    "another_step_of_each": (lambda x: tf.gather(flat(x), [1, 6, 11]), [spec(4, 2)], FIRST),
    "another_step_of_each_by_pairs": (
        lambda x: tf.gather_nd(x, [[0, 1], [1, 2], [2, 3]]),
        [spec(4, 2)],
        FIRST,
    ),
    "steps_from_another_first_on": (
        lambda x, i: tf.gather(flat(x), i % 2 + tf.constant([[0], [5], [10]], INTS)),
        [spec(4, 2), I5],
        FIRST,
    ),
    "clipped_at_the_place_of_one": (
        lambda x, i: tf.gather(
            flat(x), tf.maximum(i % 2 + tf.constant([[0], [4], [8]], INTS), [[1], [4], [8]])
        ),
        [spec(4, 2), I5],
        FIRST,
    ),
    "put_at_another_place_of_each": (
        lambda x: tf.scatter_nd([[0, 1], [1, 2], [2, 3]], x, [P, 4, 2]),
        [spec(2)],
        FIRST,
    ),
    "put_onto_what_differs": (
        lambda x, i: tf.tensor_scatter_nd_add(constant(P, 4, 2), pairs(i % 4), x[:, 0]),
        [spec(4, 2), ONE],
        FIRST,
    ),
    "segments_put_in_another_order_each": (
        lambda x: tf.math.unsorted_segment_sum(flat(x), [0, 1, 2, 3, 5, 4], 6),
        [spec(2, 2)],
        Rows(0, 2),
    ),
    "lanczos": (lambda x: tf.image.resize(x, [3, 5], "lanczos3"), [spec(4, 4, 2)], FIRST),
    "pooled_with_places": (
        lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "VALID")[0],
        [spec(4, 4, 2)],
        FIRST,
    ),
    "pooled_back_by_places_from_elsewhere": (
        lambda x: raw.MaxPoolGradWithArgmax(
            input=x,
            grad=x[:, :2, :2],
            argmax=tf.cast(tf.abs(x[:, 2:, 2:]), tf.int64) % 32,
            ksize=[1, 2, 2, 1],
            strides=[1, 2, 2, 1],
            padding="VALID",
        ),
        [spec(4, 4, 2)],
        MIXED,
    ),
    "singular_values": (lambda x: tf.linalg.svd(x, compute_uv=False), [spec(3, 3)], FIRST),
    "singular_values_of_the_batch": (
        lambda x: tf.linalg.svd(x, compute_uv=False),
        [spec(3)],
        MIXED,
    ),
    "eigenvalues": (lambda x: tf.linalg.eigvalsh(numbers(x)), [spec(3, 3)], FIRST),
    "orthogonal": (lambda x: tf.linalg.qr(x + constant(3, 3)).q, [spec(3, 3)], FIRST),
    "orthogonal_examples": (lambda x: tf.linalg.qr(x).q, [spec(3)], MIXED),
    "log_determinant": (
        lambda x: tf.linalg.slogdet(x + 9 * tf.eye(3))[1],
        [spec(3, 3)],
        FIRST,
    ),
}
