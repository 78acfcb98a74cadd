"""Operations that are seldom met, each with the verdict that is expected.

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
from tfdpnorm.independence.verification.verdicts import Rows

raw = tf.raw_ops
_VOLUME = [spec(4, 4, 4, 1)]
_IMAGE = [spec(4, 4, 3)]
_IDS = tf.constant([0, 0, 1, 2])


def complex_of(x):
    return tf.complex(x, x)


def over_columns(function):
    """A function along the first axis of [4, P]."""
    return lambda x: function(tf.transpose(x))


def last_two(function):
    """A function of matrices [P, 3, 3] that can be inverted, and of the batch as a matrix."""
    return lambda x: function(x + 9 * tf.eye(3))


OTHERS = {
    "hue": (lambda x: tf.image.adjust_hue(tf.sigmoid(x), 0.2), _IMAGE, FIRST),
    "saturation": (lambda x: tf.image.adjust_saturation(tf.sigmoid(x), 2.0), _IMAGE, FIRST),
    "colours": (lambda x: tf.image.hsv_to_rgb(tf.image.rgb_to_hsv(tf.sigmoid(x))), _IMAGE, FIRST),
    "colours_of_examples": (lambda x: tf.image.rgb_to_hsv(tf.transpose(x)), [spec(2)], MIXED),
    "bias_add": (lambda x: tf.nn.bias_add(x, constant(3)), _IMAGE, FIRST),
    "bias_of_examples": (lambda x: tf.nn.bias_add(constant(2, P), x), [spec()], MIXED),
    "bitcast": (lambda x: tf.bitcast(x, INTS), [spec(4)], FIRST),
    "bitcast_apart": (lambda x: tf.bitcast(x, tf.uint8), [spec(4)], MIXED),
    "conjugate_transpose": (lambda x: tf.linalg.adjoint(complex_of(x)), [spec(4)], Rows(1)),
    "cross": (lambda x, y: tf.linalg.cross(x, y), [spec(3), spec(3)], FIRST),
    "cross_of_examples": (
        lambda x: tf.linalg.cross(tf.transpose(x), constant(2, P)),
        [spec(2)],
        MIXED,
    ),
    "cumprod": (lambda x: tf.math.cumprod(x, 1), [spec(4)], FIRST),
    "cumulative_logsumexp": (lambda x: tf.math.cumulative_logsumexp(x, 1), [spec(4)], FIRST),
    "dilation": (
        lambda x: tf.nn.dilation2d(x, constant(2, 2, 3), [1] * 4, "SAME", "NHWC", [1] * 4),
        _IMAGE,
        FIRST,
    ),
    "euclidean_norm": (lambda x: tf.math.reduce_euclidean_norm(x, 1), [spec(4)], FIRST),
    "all_and_any": (lambda x: tf.reduce_all(x > 0, 1) & tf.reduce_any(x > 1, 1), [spec(4)], FIRST),
    "argmin": (lambda x: tf.argmin(x, 1), [spec(4)], FIRST),
    "volume_patches": (
        lambda x: tf.extract_volume_patches(x, [1, 2, 2, 2, 1], [1] * 5, "VALID"),
        _VOLUME,
        FIRST,
    ),
    "fft": (lambda x: tf.signal.ifft(tf.signal.fft(complex_of(x))), [spec(4)], FIRST),
    "fft_2d": (lambda x: tf.signal.ifft2d(tf.signal.fft2d(complex_of(x))), [spec(4, 4)], FIRST),
    "fft_2d_of_examples": (lambda x: tf.signal.fft2d(complex_of(x)), [spec(4)], MIXED),
    "fft_3d": (lambda x: tf.signal.ifft3d(tf.signal.fft3d(complex_of(x))), [spec(2, 2, 2)], FIRST),
    "real_fft_2d": (lambda x: tf.signal.irfft2d(tf.signal.rfft2d(x)), [spec(4, 4)], FIRST),
    "transform": (
        lambda x: raw.ImageProjectiveTransformV3(
            images=x,
            transforms=for_each(constant(8)) / 9,
            output_shape=[4, 4],
            fill_value=0.0,
            interpolation="BILINEAR",
        ),
        _IMAGE,
        FIRST,
    ),
    "matrix_inverse": (last_two(tf.linalg.inv), [spec(3, 3)], FIRST),
    "matrix_inverse_of_examples": (last_two(tf.linalg.inv), [spec(3)], MIXED),
    "determinant": (last_two(tf.linalg.det), [spec(3, 3)], FIRST),
    "solve": (last_two(lambda x: tf.linalg.solve(x, x[..., :1])), [spec(3, 3)], FIRST),
    "triangular_solve": (
        last_two(lambda x: tf.linalg.triangular_solve(x, x[..., :1])),
        [spec(3, 3)],
        FIRST,
    ),
    "set_diagonal": (lambda x: tf.linalg.set_diag(x, x[..., 0]), [spec(3, 3)], FIRST),
    "set_diagonal_of_examples": (lambda x: tf.linalg.set_diag(x, x[..., 0]), [spec(3)], MIXED),
    "several_diagonals": (
        lambda x: tf.linalg.diag(x, k=(0, 1), num_rows=4, num_cols=4),
        [spec(2, 4)],
        FIRST,
    ),
    "max_pool_with_places": (
        lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME")[1],
        _IMAGE,
        FIRST,
    ),
    "max_pool_3d": (lambda x: tf.nn.max_pool3d(x, 2, 2, "SAME"), _VOLUME, FIRST),
    "average_pool_3d": (lambda x: tf.nn.avg_pool3d(x, 2, 2, "SAME"), _VOLUME, FIRST),
    "nth_element": (lambda x: raw.NthElement(input=x, n=2), [spec(4)], FIRST),
    "nth_example": (lambda x: raw.NthElement(input=x, n=2), [spec()], MIXED),
    "pad_with_ones": (lambda x: tf.pad(x, [[0, 0], [1, 0]], constant_values=1.0), [spec(4)], FIRST),
    "stitched": (
        lambda x: over_columns(lambda y: tf.dynamic_stitch([[0, 2], [1]], [y[:2], y[2:3]]))(x),
        [spec(4)],
        Rows(1),
    ),
    "stitched_examples": (
        lambda x, y: tf.dynamic_stitch([[2, 0, 1], [3, 4, 5]], [x, y]),
        [spec(4), spec(4)],
        MIXED,
    ),
    "resize_area": (lambda x: tf.image.resize(x, [3, 5], "area"), _IMAGE, FIRST),
    "resize_bicubic": (lambda x: tf.image.resize(x, [3, 5], "bicubic"), _IMAGE, FIRST),
    "resize_nearest": (lambda x: tf.image.resize(x, [3, 5], "nearest"), _IMAGE, FIRST),
    "resize_lanczos": (lambda x: tf.image.resize(x, [3, 5], "lanczos3"), _IMAGE, FIRST),
    "sorted_segments": (over_columns(lambda y: tf.math.segment_sum(y, _IDS)), [spec(4)], Rows(1)),
    "sorted_segment_means": (
        over_columns(lambda y: tf.math.segment_mean(y, _IDS)),
        [spec(4)],
        Rows(1),
    ),
    "sorted_segments_of_examples": (lambda x: tf.math.segment_max(x, [0, 0, 1]), [spec(4)], MIXED),
    "unsorted_maxima": (
        over_columns(lambda y: tf.math.unsorted_segment_max(y, [2, 0, 1, 0], 3)),
        [spec(4)],
        Rows(1),
    ),
    "soft_cross_entropy": (
        lambda x, y: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(y), x),
        [spec(4), spec(4)],
        FIRST,
    ),
    "scattered_update": (
        over_columns(lambda y: tf.tensor_scatter_nd_update(y, [[1], [3]], y[:2])),
        [spec(4)],
        Rows(1),
    ),
    "scattered_sum": (
        over_columns(lambda y: tf.tensor_scatter_nd_add(y, [[1], [3]], y[:2])),
        [spec(4)],
        Rows(1),
    ),
    "scattered_examples": (
        lambda x: tf.tensor_scatter_nd_sub(x, [[1], [2]], constant(2, 4)),
        [spec(4)],
        FIRST,
    ),
    "gathered_from_a_list": (
        lambda x: over_columns(
            lambda y: tf.TensorArray(tf.float32, 4, element_shape=[P]).unstack(y).gather([2, 0])
        )(x),
        [spec(4)],
        Rows(1),
    ),
    "identities": (lambda x: raw.IdentityN(input=[x, x])[1], [spec(4)], FIRST),
}
