"""Operations with random attributes and shapes, on inputs whose examples lie on random axes.

`DRAWN` has a function of a `Draw` for each family of operations: it draws inputs and attributes,
and returns the tensors. What the operation does with examples is for the verifier to say.
"""

import math

import numpy as np
import tensorflow as tf

from tfdpnorm.independence.verification.verdicts import FREE, Rows

P = 3  # examples
_SIZES = (1, 2, 3, 4, 6)
raw = tf.raw_ops


class Draw:
    """Draws the inputs of one operation.

    Args:
        rng: NumPy generator.
        tensors: None, to note what inputs are wanted; or the tensors of these.
    """

    def __init__(self, rng, tensors=None):
        self.rng, self._tensors = rng, tensors
        self.inputs = []  # triples (shape, dtype, verdict)

    def sizes(self, rank):
        return [self.pick(_SIZES) for _ in range(rank)]

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    def below(self, count):
        return int(self.rng.integers(count))

    def flip(self, chance=0.5):
        return bool(self.rng.random() < chance)

    def tensor(self, shape, dtype=tf.float32, rows=None, bound=None):
        """An input of this shape: of `Rows`, or free.

        Args:
            shape: List.
            dtype: Its type.
            rows: Its `Rows`, which must fit the shape; FREE; or None to draw one of these.
            bound: Integers are below it.
        """
        rows = self.verdict(shape) if rows is None else rows
        self.inputs.append((tuple(shape), dtype, rows, bound))
        if self._tensors is None:
            return tf.zeros(shape, dtype)
        return self._tensors[len(self.inputs) - 1]

    def of_rows(self, rank, axis=None, dtype=tf.float32, bound=None):
        """An input with its examples on a random axis."""
        shape = self.sizes(rank)
        axis = self.below(rank) if axis is None else axis
        per_example, blocks = self.pick([(1, 1), (1, 1), (2, 1), (1, 2)])
        shape[axis] = P * per_example * blocks
        return self.tensor(shape, dtype, Rows(axis, per_example, blocks), bound)

    def like(self, tensor, shape=None, dtype=None):
        """Another input with the same examples, or a free one."""
        known = self.inputs[-1][2]
        shape = list(tensor.shape) if shape is None else shape
        return self.tensor(shape, dtype or tensor.dtype, FREE if self.flip(0.3) else known)

    def verdict(self, shape):
        """A random `Rows` that fits a shape, or FREE."""
        fitting = [
            Rows(axis, m, n // (P * m))
            for axis, n in enumerate(shape)
            for m in (1, 2)
            if n and n % (P * m) == 0
        ]
        return self.pick([FREE, *fitting, *fitting])

    def axes(self, rank):
        axes = [a for a in range(rank) if self.flip()] or [self.below(rank)]
        return [a - rank if self.flip(0.3) else a for a in axes]


def reductions(d):
    x = d.of_rows(1 + d.below(4))
    rank = x.shape.rank
    op = d.pick([raw.Sum, raw.Mean, raw.Prod, raw.Max, raw.Min, raw.EuclideanNorm])
    return op(input=x, axis=d.axes(rank), keep_dims=d.flip())


def reductions_of_truths(d):
    x = d.of_rows(1 + d.below(3), dtype=tf.bool)
    return d.pick([raw.All, raw.Any])(input=x, axis=d.axes(x.shape.rank), keep_dims=d.flip())


def places_of_extremes(d):
    x = d.of_rows(1 + d.below(3))
    return d.pick([raw.ArgMax, raw.ArgMin])(input=x, dimension=d.axes(x.shape.rank)[0])


def running(d):
    x = d.of_rows(1 + d.below(3))
    axis, options = d.axes(x.shape.rank)[0], {"exclusive": d.flip(), "reverse": d.flip()}
    return d.pick([raw.Cumsum, raw.Cumprod, raw.CumulativeLogsumexp])(x=x, axis=axis, **options)


def turned(d):
    x = d.of_rows(1 + d.below(3))
    axes = sorted({a % x.shape.rank for a in d.axes(x.shape.rank)})
    if d.flip():
        return raw.ReverseV2(tensor=x, axis=axes)
    return raw.Roll(input=x, axis=axes, shift=[1 + d.below(3) for _ in axes])


def last_axis(d):
    x = d.of_rows(2 + d.below(2))
    op = d.pick([tf.nn.softmax, tf.nn.log_softmax, lambda x: tf.math.top_k(x, 1)[d.below(2)]])
    return d.pick([op, lambda x: raw.NthElement(input=x, n=0)])(x)


def fourier(d):
    x = d.of_rows(3, dtype=tf.complex64)
    return d.pick([tf.signal.fft, tf.signal.ifft, tf.signal.fft2d, tf.signal.fft3d])(x)


def matrices(d):
    n = d.pick([3, 6])
    shape = [d.pick(_SIZES), n, n]
    x = d.tensor(shape)
    kind = d.below(6)
    if kind == 0:
        return tf.linalg.band_part(x, 1, 0)
    if kind == 1:
        return tf.linalg.diag_part(x)
    if kind == 2:
        return tf.linalg.diag(x)
    if kind == 3:
        return tf.linalg.set_diag(x, d.tensor(shape[:2]))
    if kind == 4:
        return tf.linalg.inv(x + 30 * tf.eye(n))
    return tf.linalg.triangular_solve(x + 30 * tf.eye(n), d.tensor(shape))


def products(d):
    a, b = d.flip(), d.flip()
    n, k, m = d.sizes(3)
    batch = d.sizes(d.below(3))
    x = d.tensor([*batch, *([k, n] if a else [n, k])])
    y = d.tensor([*batch, *([m, k] if b else [k, m])])
    return tf.matmul(x, y, transpose_a=a, transpose_b=b)


def sums_of_products(d):
    sizes = dict(zip("abcd", [3, d.pick(_SIZES), 3, d.pick(_SIZES)], strict=True))
    terms = ["".join(d.rng.permutation(list("abcd"))[: 1 + d.below(3)]) for _ in range(2)]
    known = sorted(set("".join(terms)))
    output = "".join(a for a in d.rng.permutation(known) if d.flip(0.7))
    inputs = [d.tensor([sizes[a] for a in term]) for term in terms]
    return tf.einsum(f"{terms[0]},{terms[1]}->{output}", *inputs)


def reshapes(d):
    x = d.of_rows(1 + d.below(3))
    count = math.prod(x.shape)
    shape = []
    while count > 1 and len(shape) < 3:
        part = d.pick([n for n in range(1, count + 1) if count % n == 0])
        shape.append(part)
        count //= part
    shape.append(count if d.flip() else -1)
    return tf.reshape(x, shape)


def places_of_axes(d):
    x = d.of_rows(1 + d.below(4))
    rank = x.shape.rank
    kind = d.below(4)
    if kind == 0:
        return tf.transpose(x, d.rng.permutation(rank))
    if kind == 1:
        return tf.expand_dims(x, d.below(2 * rank + 2) - rank - 1)
    if kind == 2:
        return tf.squeeze(x)
    return tf.broadcast_to(x, [d.pick(_SIZES), *x.shape])


def repeats(d):
    x = d.of_rows(1 + d.below(3))
    rank = x.shape.rank
    if d.flip():
        return tf.tile(x, [1 + d.below(2) for _ in range(rank)])
    return tf.repeat(x, 2, axis=d.below(rank))


def space_and_batch(d):
    n = d.pick([P, 2 * P])
    x = d.tensor([n, 4, 6, 4], rows=Rows(0, n // P) if d.flip() else Rows(0, 1, n // P))
    kind = d.below(4)
    if kind == 0:
        return tf.nn.space_to_depth(x, 2)
    if kind == 1:
        return tf.nn.depth_to_space(x, 2)
    if kind == 2:
        return tf.space_to_batch(x, [2, 1 + d.below(2)], [[0, 0], [0, 0]])
    if n == P:
        return tf.batch_to_space(tf.space_to_batch(x, [2, 2], [[0, 0]] * 2), [2, 2], [[0, 0]] * 2)
    return tf.batch_to_space(x, [2, 1], [[0, 1], [0, 0]])


def slices(d):
    x = d.of_rows(1 + d.below(3))
    index = []
    for n in x.shape:
        kind = d.below(6)
        if kind == 0:
            index.append(d.below(n))
        elif kind == 1:
            index.append(slice(d.below(n), None))
        elif kind == 2:
            index.append(slice(None, None, d.pick([-1, 2, -2])))
        elif kind == 3:
            index += [tf.newaxis, slice(None)]
        elif kind == 4:
            index.append(slice(0, P))
        else:
            index.append(slice(None))
    return x[tuple(index)]


def parts(d):
    x = d.of_rows(1 + d.below(3))
    begin = [d.pick([0, 0, 0, min(P, n - 1)]) for n in x.shape]
    size = [d.pick([-1, -1, n - b]) for n, b in zip(x.shape, begin, strict=True)]
    if d.flip():
        size = [min(P, n - b) for n, b in zip(x.shape, begin, strict=True)]
    return tf.slice(x, begin, size)


def splits(d):
    x = d.of_rows(1 + d.below(3))
    axis = d.below(x.shape.rank)
    n = x.shape[axis]
    if d.flip():
        return tf.split(x, d.pick([k for k in range(1, n + 1) if n % k == 0]), axis)[0]
    first = d.below(n) + 1
    return tf.split(x, [first, n - first], axis)[d.below(2)]


def stacks(d):
    x = d.of_rows(1 + d.below(3))
    rank = x.shape.rank
    if d.flip():
        return tf.unstack(x, axis=d.below(rank))[0]
    return tf.stack([x, d.like(x)], axis=d.below(rank + 1))


def joins(d):
    x = d.of_rows(1 + d.below(3))
    axis = d.below(x.shape.rank)
    shape = list(x.shape)
    if d.flip():
        shape[axis] = d.pick([*_SIZES, 2 * P])
        return tf.concat([x, d.tensor(shape)], axis)
    return tf.concat([x, d.like(x)], axis - x.shape.rank)


def pads(d):
    x = d.of_rows(1 + d.below(3))
    mode = d.pick(["CONSTANT", "REFLECT", "SYMMETRIC"])
    most = [n - 1 if mode == "REFLECT" else n for n in x.shape]
    amounts = [[d.pick([0, min(P, m)]), d.pick([0, min(P, m)])] for m in most]
    return tf.pad(x, amounts, mode)


def gathers(d):
    params, indices = d.sizes(1 + d.below(3)), d.sizes(1 + d.below(2))
    axis = d.below(len(params))
    batch_dims = d.below(min(axis, len(indices) - 1) + 1)
    for k in range(batch_dims):
        params[k] = indices[k]
    x = d.tensor(params)
    at = d.tensor(indices, tf.int32, bound=params[axis])
    if d.flip():
        at = tf.constant(d.rng.integers(0, params[axis], indices), tf.int32)
    return tf.gather(x, at, axis=axis, batch_dims=batch_dims)


def gathers_by_several(d):
    params, indices = d.sizes(2 + d.below(2)), d.sizes(1 + d.below(2))
    depth = 1 + d.below(len(params))
    x = d.tensor(params)
    return tf.gather_nd(x, d.tensor([*indices, depth], tf.int32, bound=min(params[:depth])))


def own_entries(d):
    """Indices that name entries of their own example, or of the next one."""
    x = d.tensor([P, 4], rows=Rows(0))
    shift = d.below(2)
    places = (tf.range(P) + shift) % P
    kind = d.below(3)
    if kind == 0:
        return tf.gather(x, places)
    if kind == 1:
        return tf.scatter_nd(places[:, tf.newaxis], x, [P, 4])
    return tf.math.unsorted_segment_sum(x, places, P)


def scatters(d):
    n, size = d.pick([2, P]), d.pick([P, 4])
    indices = d.tensor([n, 1], tf.int32, bound=size)
    updates = d.tensor([n, P])
    if d.flip():
        return tf.scatter_nd(indices, updates, [size, P])
    return tf.tensor_scatter_nd_add(d.tensor([size, P]), indices, updates)


def segments(d):
    x, ids = d.tensor([P, P]), d.tensor([P], tf.int32, bound=P)
    if d.flip():
        return d.pick([tf.math.unsorted_segment_sum, tf.math.unsorted_segment_max])(x, ids, P)
    return d.pick([tf.math.segment_sum, tf.math.segment_mean])(x, [0] * P)


def one_hot(d):
    ids = d.of_rows(1 + d.below(2), dtype=tf.int32, bound=3)
    return tf.one_hot(ids, 3, axis=d.below(ids.shape.rank + 2) - 1)


def stitches(d):
    x = d.tensor([2, P, P])
    return tf.dynamic_stitch([[1], [0]], [x[:1], x[1:]])


def counts(d):
    x = d.tensor([P, 4], tf.int32, bound=3)
    return tf.math.bincount(x, minlength=3, maxlength=3, axis=-1, dtype=tf.float32)


def convolutions(d):
    x = d.tensor([P, 6, 6, 3], rows=Rows(0) if d.flip(0.7) else None)
    filters = d.tensor([3, 3, 3, d.pick([1, 3])], rows=FREE if d.flip(0.7) else None)
    padding, strides = d.pick(["SAME", "VALID"]), 1 + d.below(2)
    if d.flip():
        return tf.nn.conv2d(x, filters, strides, padding)
    return tf.nn.depthwise_conv2d(x, filters, [1, strides, strides, 1], padding)


def pools(d):
    x = d.tensor([P, 6, 6, 3], rows=Rows(0) if d.flip(0.7) else None)
    size, strides = 1 + d.below(3), 1 + d.below(2)
    op = d.pick([tf.nn.max_pool2d, tf.nn.avg_pool2d])
    return op(x, size, strides, d.pick(["SAME", "VALID"]))


def images(d):
    x = d.tensor([P, 4, P, 3])
    return d.pick(
        [
            lambda: tf.image.resize(x, [3, 5], d.pick(["bilinear", "nearest", "bicubic", "area"])),
            lambda: tf.image.adjust_contrast(x, 2.0),
            lambda: tf.image.adjust_saturation(tf.sigmoid(x), 2.0),
            lambda: tf.image.rgb_to_hsv(tf.sigmoid(x)),
            lambda: tf.image.extract_patches(x, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID"),
            lambda: tf.nn.local_response_normalization(x, 1),
            lambda: tf.nn.bias_add(x, d.tensor([3])),
        ]
    )()


def entropies(d):
    x = d.tensor([P, P])
    if d.flip():
        return tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(d.tensor([P, P])), x)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(d.tensor([P], tf.int32, bound=P), x)


def normalisations(d):
    x = d.tensor([P, 2, P, 3])
    scale, offset = d.tensor([3]), d.tensor([3])
    mean, variance = d.tensor([3]), tf.exp(d.tensor([3]))
    if d.flip():
        return raw.FusedBatchNormV3(
            x=x, scale=scale, offset=offset, mean=mean, variance=variance, is_training=False
        ).y
    empty = tf.constant([])
    return raw.FusedBatchNormV3(
        x=x, scale=scale, offset=offset, mean=empty, variance=empty, is_training=True
    ).y


def broadcasts(d):
    shape = d.sizes(1 + d.below(3))
    other = [n if d.flip(0.7) else 1 for n in shape][d.below(len(shape)) :]
    x, y = d.tensor(shape), d.tensor(other)
    op = d.pick([tf.add, tf.multiply, tf.maximum, tf.math.squared_difference, tf.less])
    if d.flip(0.3):
        return tf.where(x > 0, x, y)
    return op(x, y)


def choices(d):
    x, y = d.tensor([P, 4]), d.tensor([P, 4])
    return raw.Select(condition=d.tensor([P], tf.bool), x=x, y=y)


def lists(d):
    x = d.tensor([P, P, 2])
    kept = tf.TensorArray(tf.float32, P, element_shape=[P, 2], clear_after_read=False).unstack(x)
    return d.pick([kept.stack, lambda: kept.read(1), lambda: kept.gather([2, 0]), kept.concat])()


def sequences(d):
    x = d.tensor([P, P, 2])
    along, batch = d.pick([(1, 0), (0, 1)])
    return tf.reverse_sequence(x, d.tensor([P], tf.int32, bound=P), along, batch)


def branches(d):
    x, y = d.tensor([P, 4]), d.tensor([P, 4])
    return tf.cond(tf.reduce_sum(d.tensor([2])) > 0, lambda: x + 1.0, lambda: y)


def loops(d):
    x, y = d.tensor([P, P]), d.tensor([P, P])
    turn = d.pick([lambda i, a, b: (i + 1, b, a + b), lambda i, a, b: (i + 1, tf.transpose(a), b)])
    return tf.while_loop(lambda i, *_: i < 3, turn, (0, x, y))[1]


DRAWN = {
    function.__name__: function
    for function in (
        *(reductions, reductions_of_truths, places_of_extremes, running, turned, last_axis),
        *(fourier, matrices, products, sums_of_products, reshapes, places_of_axes, repeats),
        *(space_and_batch, slices, parts, splits, stacks, joins, pads, gathers),
        *(gathers_by_several, own_entries, scatters, segments, one_hot, stitches, counts),
        *(convolutions, pools, images, entropies, normalisations, broadcasts, choices, lists),
        *(sequences, branches, loops),
    )
}


def values(inputs, rng):
    """Random arrays for inputs."""
    return [_random(shape, dtype, bound, rng) for shape, dtype, _, bound in inputs]


def changed(arrays, inputs, example, rng):
    """The arrays with one example changed in all inputs of rows."""
    found = []
    for array, (shape, dtype, verdict, bound) in zip(arrays, inputs, strict=True):
        if isinstance(verdict, Rows):
            entries = np.arange(shape[verdict.axis]) // verdict.per_example % P
            own = [1] * len(shape)
            own[verdict.axis] = -1
            array = np.where(
                (entries == example).reshape(own), _random(shape, dtype, bound, rng), array
            ).astype(array.dtype)
        found.append(array)
    return found


def _random(shape, dtype, bound, rng):
    if dtype == tf.bool:
        return rng.random(shape) < 0.5
    if dtype.is_integer:
        return rng.integers(0, bound, shape).astype(dtype.as_numpy_dtype)
    found = rng.normal(size=shape)
    return (found + 1j * rng.normal(size=shape) if dtype.is_complex else found).astype(
        dtype.as_numpy_dtype
    )
