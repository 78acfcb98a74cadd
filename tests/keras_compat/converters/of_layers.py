"""Operations of layers, matrices and images."""

import functools

import tensorflow as tf

from tests.keras_compat.converters.case import (
    RAW,
    Case,
    apart,
    definite,
    each,
    of,
    positive,
    real,
    triangular,
    whole,
)

_COLOURS = real(4, 3, 3, low=0.1, high=0.9)
_TURNS = ((False, False), (True, False), (False, True), (True, True))
# Axes of one entry: TensorFlow 2.21 spoils memory at [8, 1, 4, 5] times [5, 6].
_BATCHES = (
    ((1,), ()),
    ((), (1,)),
    ((1,), (1,)),
    ((1, 3), ()),
    ((3, 1), ()),
    ((3, 1), (1,)),
    ((1, 3), (3,)),
    ((1, 2, 1), (3, 1, 1)),
    ((2, 3), (3,)),
    ((), ()),
)


def _turned(rows, columns, is_turned):
    return (columns, rows) if is_turned else (rows, columns)


def _product(operation, a, b):
    return lambda x, y: operation(a=x, b=y, transpose_a=a, transpose_b=b)


def _twice(function, x):
    """The derivative of the sum of squares of a function: its gradient has one of its own."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(function(x) ** 2)
    return tape.gradient(total, x)


LAYERS = {
    # layers
    "BiasAdd": [
        *each(tf.nn.bias_add, {}, inputs=(real(2, 3, 4), real(4))),
        *(
            Case(functools.partial(tf.nn.bias_add, data_format="NCHW"), (real(*s), real(3)))
            for s in ((2, 3, 4), (2, 3, 4, 2), (2, 3, 2, 2, 2))
        ),
    ],
    "BiasAddGrad": [
        Case(lambda x, f=f: RAW.BiasAddGrad(out_backprop=x, data_format=f), (real(2, 4, 3, 2),))
        for f in ("NHWC", "NCHW")
    ],
    "Softmax": [Case(tf.nn.softmax, (real(3, 4),)), Case(tf.nn.softmax, (real(4),))],
    "LogSoftmax": [Case(tf.nn.log_softmax, (real(3, 4),))],
    "SoftmaxCrossEntropyWithLogits": [
        Case(
            lambda x, y: (
                RAW.SoftmaxCrossEntropyWithLogits(features=x, labels=tf.nn.softmax(y)).loss
            ),
            (real(2, 4), real(2, 4)),
        )
    ],
    "SparseSoftmaxCrossEntropyWithLogits": [
        Case(
            lambda x, y: RAW.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=y).loss,
            (real(2, 4), whole(2)),
        )
    ],
    "ReluGrad": [Case(of("ReluGrad", "gradients", "features"), (real(3), real(3)))],
    "Relu6Grad": [Case(of("Relu6Grad", "gradients", "features"), (real(3), real(3)))],
    "SoftplusGrad": [Case(of("SoftplusGrad", "gradients", "features"), (real(3), real(3)))],
    "SoftsignGrad": [Case(lambda x: tf.nn.softsign(x), (real(3),))],
    "LeakyReluGrad": [Case(of("LeakyReluGrad", "gradients", "features"), (real(3), real(3)))],
    "EluGrad": [Case(of("EluGrad", "gradients", "outputs"), (real(3), real(3)))],
    "SeluGrad": [Case(of("SeluGrad", "gradients", "outputs"), (real(3), real(3)))],
    "SigmoidGrad": [Case(of("SigmoidGrad", "y", "dy"), (real(3), real(3)))],
    "TanhGrad": [Case(of("TanhGrad", "y", "dy"), (real(3), real(3)))],
    "SqrtGrad": [Case(of("SqrtGrad", "y", "dy"), (positive(3), real(3)))],
    "RsqrtGrad": [Case(of("RsqrtGrad", "y", "dy"), (positive(3), real(3)))],
    "ReciprocalGrad": [Case(of("ReciprocalGrad", "y", "dy"), (positive(3), real(3)))],
    **dict.fromkeys(
        ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"),
        [
            Case(
                lambda x, w, s=s, p=p, d=d: tf.nn.conv2d(x, w, s, p, dilations=d),
                (real(n, 5, 4, 2), real(3, 2, 2, 3)),
                tolerance=1e-4,
            )
            for n, s, p, d in ((1, 1, "SAME", 1), (2, 2, "VALID", 1), (1, 1, "VALID", 2))
        ],
    ),
    **dict.fromkeys(
        (
            "DepthwiseConv2dNative",
            "DepthwiseConv2dNativeBackpropInput",
            "DepthwiseConv2dNativeBackpropFilter",
        ),
        [
            Case(
                lambda x, w, s=s, p=p: tf.nn.depthwise_conv2d(x, w, [1, s, s, 1], p),
                (real(n, 5, 4, 2), real(3, 2, 2, 3)),
                tolerance=1e-4,
            )
            for n, s, p in ((1, 1, "SAME"), (2, 2, "VALID"))
        ],
    ),
    **dict.fromkeys(
        ("AvgPool", "AvgPoolGrad"),
        [
            Case(lambda x, s=s, p=p: tf.nn.avg_pool2d(x, 2, s, p), (real(n, 5, 4, 3),))
            for n, s, p in ((1, 1, "SAME"), (2, 2, "VALID"))
        ],
    ),
    **dict.fromkeys(
        ("AvgPool3D", "AvgPool3DGrad"),
        [
            Case(lambda x, s=s, p=p: tf.nn.avg_pool3d(x, 2, s, p), (real(n, 3, 4, 3, 2),))
            for n, s, p in ((1, 1, "SAME"), (2, 2, "VALID"))
        ],
    ),
    **dict.fromkeys(
        ("MaxPool", "MaxPoolGrad"),
        [
            Case(lambda x, s=s, p=p: tf.nn.max_pool2d(x, 2, s, p), (apart(n, 5, 4, 3),))
            for n, s, p in ((1, 1, "SAME"), (2, 2, "VALID"))
        ],
    ),
    **dict.fromkeys(
        ("MaxPool3D", "MaxPool3DGrad"),
        [
            Case(lambda x, s=s, p=p: tf.nn.max_pool3d(x, 2, s, p), (apart(n, 3, 4, 3, 2),))
            for n, s, p in ((1, 1, "SAME"), (2, 2, "VALID"))
        ],
    ),
    **dict.fromkeys(
        ("MaxPoolGradGrad",),
        [
            Case(
                lambda x: _twice(lambda y: tf.nn.max_pool2d(y, 2, 2, "VALID"), x),
                (apart(1, 4, 4, 2),),
            )
        ],
    ),
    "MaxPool3DGradGrad": [
        Case(
            lambda x: _twice(lambda y: tf.nn.max_pool3d(y, 2, 2, "VALID"), x),
            (apart(1, 2, 4, 2, 2),),
        )
    ],
    **dict.fromkeys(
        ("MaxPoolV2", "MaxPoolGradV2"),
        [
            Case(
                lambda x, p=p: RAW.MaxPoolV2(
                    input=x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding=p
                ),
                (apart(n, 5, 4, 3),),
            )
            for n, p in ((1, "SAME"), (2, "VALID"))
        ],
    ),
    "MaxPoolGradGradV2": [
        Case(
            lambda x: _twice(
                lambda y: RAW.MaxPoolV2(
                    input=y, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"
                ),
                x,
            ),
            (apart(1, 4, 4, 2),),
        )
    ],
    **dict.fromkeys(
        ("FusedBatchNormV3", "FusedBatchNormGradV3"),
        [
            Case(
                lambda x, g, b, f=f: RAW.FusedBatchNormV3(
                    x=x, scale=g, offset=b, mean=[], variance=[], epsilon=0.1, data_format=f
                )[0],
                (real(n, 3, 4, 2), positive(2), real(2)),
                tolerance=1e-4,
            )
            for n, f in ((1, "NHWC"), (2, "NHWC"))
        ],
    ),
    "TopKV2": [Case(of("TopKV2", "input", k=2), (apart(3, 4),))],
    # matrices
    "MatMul": [
        Case(_product(RAW.MatMul, *t), (real(*_turned(3, 4, t[0])), real(*_turned(4, 2, t[1]))))
        for t in _TURNS
    ]
    + [Case(_product(RAW.MatMul, False, False), (real(1, 4), real(4, 2)))],
    **{
        name: [
            Case(
                lambda x, y, t=t, name=name: getattr(RAW, name)(x=x, y=y, adj_x=t[0], adj_y=t[1]),
                (real(*a, *_turned(3, 4, t[0])), real(*b, *_turned(4, 2, t[1]))),
            )
            for t, (a, b) in cases
        ]
        for name, cases in (
            ("BatchMatMul", [(t, ((2,), (2,))) for t in _TURNS]),
            (
                "BatchMatMulV2",
                [*((t, ((2, 1), (3,))) for t in _TURNS), *((_TURNS[0], s) for s in _BATCHES)],
            ),
        )
    },
    "Einsum": [
        Case(functools.partial(tf.einsum, e), tuple(real(*s) for s in shapes))
        for e, *shapes in (
            ("ab,bc->ac", (3, 4), (4, 2)),
            ("abc,cde->abde", (2, 3, 4), (4, 2, 3)),
            ("aecd,abcd->acbe", (1, 3, 2, 4), (1, 2, 2, 4)),
            ("...a,ab->...b", (2, 3), (3, 4)),
            ("ab->ba", (3, 2)),
            ("ab->a", (3, 2)),
        )
    ],
    "Cholesky": [Case(tf.linalg.cholesky, (definite(3),), tolerance=1e-3)],
    "LogMatrixDeterminant": [
        Case(lambda x: list(RAW.LogMatrixDeterminant(input=x)), (definite(3),), tolerance=1e-3)
    ],
    "MatrixInverse": each(
        tf.linalg.inv, {"adjoint": False}, {"adjoint": True}, inputs=(definite(3),), tolerance=1e-3
    ),
    "MatrixSolve": each(
        tf.linalg.solve,
        {"adjoint": False},
        {"adjoint": True},
        inputs=(definite(3), real(3, 2)),
        tolerance=1e-3,
    ),
    "MatrixTriangularSolve": each(
        tf.linalg.triangular_solve,
        {"adjoint": False},
        {"adjoint": True},
        inputs=(triangular(3), real(3, 2)),
        tolerance=1e-3,
    ),
    "SelfAdjointEigV2": [Case(tf.linalg.eigvalsh, (definite(3),), tolerance=1e-3)],
    "MatrixBandPart": [
        Case(lambda x: tf.linalg.band_part(x, 1, 0), (real(2, 3, 3),)),
        Case(lambda x: tf.linalg.band_part(x, 0, -1), (real(3, 4),)),
    ],
    "MatrixDiag": [Case(lambda x: RAW.MatrixDiag(diagonal=x), (real(2, 3),))],
    "MatrixDiagPart": [Case(lambda x: RAW.MatrixDiagPart(input=x), (real(2, 3, 3),))],
    "MatrixSetDiag": [Case(of("MatrixSetDiag", "input", "diagonal"), (real(2, 3, 3), real(2, 3)))],
    **{
        f"MatrixDiagV{v}": [
            Case(
                lambda x, v=v, k=k: getattr(RAW, f"MatrixDiagV{v}")(
                    diagonal=x, k=k, num_rows=-1, num_cols=-1, padding_value=0.5
                ),
                (real(2, 3),),
            )
            for k in (0, 1)
        ]
        for v in (2, 3)
    },
    **{
        f"MatrixDiagPartV{v}": [
            Case(
                lambda x, v=v, k=k: getattr(RAW, f"MatrixDiagPartV{v}")(
                    input=x, k=k, padding_value=0.5
                ),
                (real(2, 3, 3),),
            )
            for k in (0, -1, [-1, 1])
        ]
        for v in (2, 3)
    },
    **{
        f"MatrixSetDiagV{v}": [
            Case(
                lambda x, y, v=v, k=k: getattr(RAW, f"MatrixSetDiagV{v}")(input=x, diagonal=y, k=k),
                (real(2, 3, 3), real(2, n)),
            )
            for k, n in ((0, 3), (1, 2))
        ]
        for v in (2, 3)
    },
    "Diag": [Case(lambda x: RAW.Diag(diagonal=x), (real(*s),)) for s in ((3,), (2, 3))],
    "DiagPart": [
        Case(lambda x: RAW.DiagPart(input=x), (real(*s),)) for s in ((3, 3), (2, 3, 2, 3))
    ],
    # images
    "AdjustContrastv2": [
        Case(
            of("AdjustContrastv2", "images", "contrast_factor"),
            (real(4, 3, 3), positive()),
            gradient=False,
        )
    ],
    "AdjustHue": [Case(of("AdjustHue", "images", "delta"), (_COLOURS, real()), gradient=False)],
    "AdjustSaturation": [
        Case(of("AdjustSaturation", "images", "scale"), (_COLOURS, positive()), gradient=False)
    ],
}
