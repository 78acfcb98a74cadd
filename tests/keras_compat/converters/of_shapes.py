"""Operations that rearrange, choose and copy numbers."""

import functools

import numpy as np
import tensorflow as tf

from tests.keras_compat.converters.case import (
    RAW,
    Case,
    ascending,
    boolean,
    each,
    of,
    real,
    whole,
)

_FEW = functools.partial(whole, low=0, high=2)

SHAPES = {
    # shapes
    "Reshape": each(
        tf.reshape, *({"shape": s} for s in ([6], [-1, 3], [1, 2, 3])), inputs=(real(3, 2),)
    ),
    "ExpandDims": each(
        tf.expand_dims, *({"axis": a} for a in (0, 1, 2, -1, -3)), inputs=(real(3, 2),)
    ),
    "Squeeze": each(
        tf.squeeze, *({"axis": a} for a in (None, 0, [2], -2, [0, -2])), inputs=(real(1, 3, 1, 2),)
    ),
    "Transpose": each(
        tf.transpose,
        *({"perm": p} for p in ([0, 1, 2], [2, 0, 1], [1, 0, 2])),
        inputs=(real(3, 2, 4),),
    ),
    "ReverseV2": each(
        tf.reverse, *({"axis": a} for a in ([0], [-1], [0, -1], [1])), inputs=(real(3, 2),)
    ),
    "Roll": each(
        lambda x, shift, axis: tf.roll(x, shift, axis),
        *({"axis": a} for a in (0, 1, -1, -2)),
        inputs=(real(3, 4), whole()),
        of_rows=((0,), (0, 1)),
    ),
    "Tile": each(tf.tile, *({"multiples": m} for m in ([2, 1], [1, 3])), inputs=(real(3, 2),)),
    "Pack": each(
        lambda *x, axis: tf.stack(x, axis),
        *({"axis": a} for a in (0, 1, 2, -1, -3)),
        inputs=(real(3, 2), real(3, 2)),
    ),
    "Unpack": each(tf.unstack, *({"axis": a} for a in (0, 1, -1, -2)), inputs=(real(3, 2),)),
    "Pad": [Case(lambda x: RAW.Pad(input=x, paddings=[[1, 0], [2, 1]]), (real(3, 2),))],
    "PadV2": [
        Case(
            lambda x, c, p=paddings: RAW.PadV2(input=x, paddings=p, constant_values=c),
            (real(3, 2), real()),
        )
        for paddings in ([[1, 0], [2, 1]], [[0, 0], [0, 3]])
    ],
    "Split": each(
        lambda x, axis: tf.split(x, 2, axis),
        *({"axis": a} for a in (0, 1, -1, -2)),
        inputs=(real(4, 2),),
    ),
    "SplitV": each(
        lambda x, axis: tf.split(x, [1, 3], axis),
        *({"axis": a} for a in (0, 1, -1, -2)),
        inputs=(real(4, 4),),
    ),
    "ConcatV2": each(
        lambda *x, axis: tf.concat(x, axis),
        *({"axis": a} for a in (0, 1, -1, -2)),
        inputs=(real(3, 2), real(3, 2)),
    ),
    "Slice": [
        *each(
            tf.slice,
            {"begin": [1, 0], "size": [2, -1]},
            {"begin": [0, 1], "size": [1, 1]},
            inputs=(real(3, 2),),
        ),
        Case(lambda x, at: tf.slice(x, at, [2, 1]), (real(3, 2), _FEW(2))),
    ],
    "StridedSlice": [
        Case(call, (real(3, 4, 2),))
        for call in (
            lambda x: x[1:],
            lambda x: x[..., 0],
            lambda x: x[:, ::2],
            lambda x: x[-1, ::-1],
            lambda x: x[:, tf.newaxis, 1:3],
            lambda x: x[1:2, ..., tf.newaxis, -1],
        )
    ],
    "StridedSliceGrad": [
        Case(
            lambda x: RAW.StridedSliceGrad(
                shape=[4, 3], begin=[1, 0], end=[3, 3], strides=[1, 2], dy=x
            ),
            (real(2, 2),),
        ),
        Case(
            lambda x: RAW.StridedSliceGrad(
                shape=[4, 3],
                begin=[0, 1],
                end=[0, 2],
                strides=[1, 1],
                dy=x,
                begin_mask=1,
                end_mask=1,
                shrink_axis_mask=2,
            ),
            (real(4),),
        ),
    ],
    "GatherV2": [
        *each(
            lambda x, i, axis: tf.gather(x, i, axis=axis),
            *({"axis": a} for a in (0, 1, -1, -2)),
            inputs=(real(3, 3), whole(4)),
        ),
        *each(
            lambda x, i, axis, batch_dims: tf.gather(x, i, axis=axis, batch_dims=batch_dims),
            {"axis": 1, "batch_dims": 1},
            {"axis": 2, "batch_dims": 1},
            inputs=(real(2, 3, 3), whole(2, 4)),
        ),
        Case(lambda x, i: tf.gather(x, i), (real(3, 2), whole())),
    ],
    "GatherNd": each(
        tf.gather_nd,
        {},
        {"batch_dims": 1},
        inputs=(real(3, 3, 2), whole(3, 1)),
    ),
    "TensorScatterUpdate": [
        Case(
            lambda x, i, y: RAW.TensorScatterUpdate(tensor=x, indices=i, updates=y),
            (
                real(4, 2),
                lambda rng, rows: np.stack(
                    [rng.permutation(4)[:2, None] for _ in range(rows)]
                ).astype("int32"),
                real(2, 2),
            ),
        )
    ],
    "OneHot": each(
        lambda i, axis: tf.one_hot(i, 4, 2.0, -1.0, axis),
        *({"axis": a} for a in (-1, 0, 1)),
        inputs=(whole(3, 2),),
    ),
    "Fill": [Case(lambda x: tf.fill([3, 2], x), (real(),))],
    "BroadcastTo": [
        Case(lambda x: tf.broadcast_to(x, [2, 3, 4]), (real(*shape),))
        for shape in ((3, 1), (4,), (), (2, 1, 1))
    ],
    "EnsureShape": [Case(lambda x: tf.ensure_shape(x, [3, None]), (real(3, 2),))],
    "IdentityN": [Case(lambda *x: list(tf.identity_n(x)), (real(3), whole(2)))],
    "ShapeN": [Case(lambda *x: list(RAW.ShapeN(input=list(x))), (real(3), real(2, 1)))],
    "Select": [
        Case(of("Select", "condition", "x", "y"), (boolean(*c), real(3, 2), real(3, 2)))
        for c in ((3, 2), (3,), ())
    ],
    "SelectV2": [
        Case(tf.where, (boolean(*c), real(*x), real(*y)))
        for c, x, y in (
            ((3, 2), (3, 2), (3, 2)),
            ((3, 1), (2,), (3, 2)),
            ((2,), (), (3, 2)),
            ((), (3, 2), ()),
        )
    ],
    "LowerBound": [
        Case(of("LowerBound", "sorted_inputs", "values"), (ascending(2, 4), real(2, 3)))
    ],
    "UpperBound": [
        Case(of("UpperBound", "sorted_inputs", "values"), (ascending(2, 4), real(2, 3)))
    ],
    "SpaceToDepth": [Case(lambda x: tf.nn.space_to_depth(x, 2), (real(1, 4, 2, 3),))],
    "DepthToSpace": [Case(lambda x: tf.nn.depth_to_space(x, 2), (real(1, 2, 1, 8),))],
    "SpaceToBatchND": [
        Case(lambda x: tf.space_to_batch(x, [2, 1], [[0, 0], [1, 0]]), (real(n, 4, 2, 3),))
        for n in (1, 2)
    ],
    "BatchToSpaceND": [
        Case(lambda x: tf.batch_to_space(x, [2, 1], [[1, 0], [0, 0]]), (real(n, 3, 2, 2),))
        for n in (2, 4)
    ],
}
