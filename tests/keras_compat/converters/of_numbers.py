"""Operations on single numbers, and reductions."""

import functools

import tensorflow as tf

from tests.keras_compat.converters.case import (
    RAW,
    Case,
    apart,
    binary,
    boolean,
    complex_numbers,
    of,
    on_complex,
    positive,
    real,
    reductions,
    unary,
    whole,
)

_FROM_0_TO_1 = functools.partial(real, low=0.1, high=0.9)
_INSIDE_1 = functools.partial(real, low=-0.9, high=0.9)
_ABOVE_1 = functools.partial(real, low=1.2, high=3.0)
_BITS = functools.partial(whole, low=0, high=30)
_FEW = functools.partial(whole, low=0, high=2)
_COUNTS = functools.partial(whole, low=1, high=6)

NUMBERS = {
    # numbers
    **unary(
        "Abs Asinh Atan Ceil Cos Cosh Dawsn Erf Erfc Exp Expm1 Floor FresnelCos FresnelSin "
        "IsFinite IsInf IsNan Neg OnesLike Rint Round Sigmoid Sign Sin Sinh Square Tan Tanh "
        "ZerosLike BesselI0 BesselI0e BesselI1 BesselI1e",
        real(3, 2),
    ),
    **unary(
        "BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Digamma Expint "
        "Inv Lgamma Log Log1p Reciprocal Rsqrt Spence Sqrt",
        positive(3, 2),
    ),
    **unary("Acos Asin Atanh Erfinv", _INSIDE_1(3, 2)),
    **unary("Ndtri", _FROM_0_TO_1(3, 2)),
    **unary("Acosh", _ABOVE_1(3, 2)),
    **unary("Elu LeakyRelu Relu Relu6 Selu Softplus Softsign", real(3, 2), "features"),
    **unary("Identity StopGradient Rank Size Shape", real(3, 2), "input"),
    **unary("Invert", _BITS(3, 2)),
    **unary("LogicalNot", boolean(3, 2)),
    **binary(
        "Add Sub Mul Atan2 Maximum Minimum SquaredDifference MulNoNan DivNoNan Xdivy",
        real,
        positive,
    ),
    **binary("Div RealDiv FloorDiv FloorMod Pow Xlogy Xlog1py", positive, positive),
    **binary("Greater GreaterEqual Less LessEqual", real, real),
    **binary("Equal NotEqual", _FEW, _FEW),
    **binary("Mod TruncateDiv TruncateMod", _BITS, _COUNTS),
    **binary("BitwiseAnd BitwiseOr BitwiseXor", _BITS, _BITS),
    **binary("LeftShift RightShift", _BITS, _COUNTS),
    **binary("LogicalAnd LogicalOr", boolean, boolean),
    **binary("Igamma Igammac", positive, positive, ("a", "x")),
    **binary("Zeta", functools.partial(real, low=2.0, high=4.0), positive, ("x", "q")),
    **binary(
        "Polygamma",
        lambda *s: lambda rng, rows: rng.integers(1, 4, (rows, *s)).astype("float32"),
        positive,
        ("a", "x"),
    ),
    "AddV2": [
        Case(tf.add, (real(*a), real(*b)))
        for a, b in (((3, 2), (3, 2)), ((2,), (3, 2)), ((3, 2), ()), ((1, 2), (3, 1)))
    ],
    "ApproximateEqual": [
        Case(of("ApproximateEqual", "x", "y", tolerance=0.5), (real(3, 2), real(3, 2)), ((0, 1),))
    ],
    "IgammaGradA": [Case(of("Igamma", "a", "x"), (positive(3, 2), positive(3, 2)))],
    "AddN": [Case(lambda *x: RAW.AddN(inputs=list(x)), (real(3, 2),) * 3)],
    "Cross": [Case(of("Cross", "a", "b"), (real(2, 3), real(2, 3)))],
    "Cast": [
        Case(lambda x: tf.cast(x, tf.float64), (real(3, 2),)),
        Case(lambda x: tf.cast(4 * x, tf.int32), (real(3, 2),)),
        Case(lambda x: tf.cast(x, tf.float32), (boolean(3, 2),)),
    ],
    "Bucketize": [
        Case(of("Bucketize", "input", boundaries=[-0.5, 0.0, 1.0]), (real(3, 2),)),
    ],
    "ClipByValue": [
        Case(
            lambda x: RAW.ClipByValue(t=x, clip_value_min=-0.5, clip_value_max=0.7), (real(3, 2),)
        ),
        Case(tf.clip_by_value, (real(3, 2), real(high=-0.2), positive())),
    ],
    "CheckNumerics": [Case(of("CheckNumerics", "tensor", message=""), (real(3, 2),))],
    # complex numbers
    "Complex": [Case(tf.complex, complex_numbers(3, 2))],
    "ComplexAbs": [Case(on_complex(tf.abs), complex_numbers(3, 2))],
    "Conj": [Case(on_complex(tf.math.conj), complex_numbers(3, 2))],
    "Real": [Case(on_complex(tf.math.real), complex_numbers(3, 2))],
    "Imag": [Case(on_complex(tf.math.imag), complex_numbers(3, 2))],
    "Angle": [Case(on_complex(tf.math.angle), (positive(3, 2), real(3, 2)))],
    "ConjugateTranspose": [
        Case(
            on_complex(lambda z: tf.transpose(z, [2, 0, 1], conjugate=True)),
            complex_numbers(3, 2, 4),
        )
    ],
    **{
        f"{way}{dimensions}": [
            Case(
                on_complex(getattr(tf.signal, (way + dimensions).lower())),
                complex_numbers(2, 2, 3, 4),
                tolerance=1e-4,
            )
        ]
        for way in ("FFT", "IFFT")
        for dimensions in ("", "2D", "3D")
    },
    **{
        f"RFFT{dimensions}": [
            Case(
                getattr(tf.signal, f"rfft{dimensions}".lower()),
                (real(2, 2, 3, 4),),
                None,
                1e-4,
                dimensions != "3D",
            )
        ]
        for dimensions in ("", "2D", "3D")
    },
    **{
        f"IRFFT{dimensions}": [
            Case(
                on_complex(getattr(tf.signal, f"irfft{dimensions}".lower())),
                complex_numbers(2, 2, 3, 3),
                tolerance=1e-4,
                gradient=dimensions != "3D",
            )
        ]
        for dimensions in ("", "2D", "3D")
    },
    # reductions
    **reductions("Sum Mean Prod Max Min", apart(3, 2)),
    **reductions("All Any", boolean(3, 2)),
    **{
        name: [Case(of(name, "input", dimension=axis), (apart(3, 4),)) for axis in (0, 1, -1, -2)]
        for name in ("ArgMax", "ArgMin")
    },
    **{
        name: [
            Case(of(name, "x", axis=axis, exclusive=e, reverse=r), (positive(3, 4),))
            for axis, e, r in ((0, False, False), (-1, True, False), (1, False, True))
        ]
        for name in ("Cumsum", "Cumprod")
    },
    **{
        f"UnsortedSegment{name}": [
            Case(
                functools.partial(
                    lambda data, ids, name: getattr(RAW, f"UnsortedSegment{name}")(
                        data=data, segment_ids=ids, num_segments=3
                    ),
                    name=name,
                ),
                (apart(4, *more), whole(4, low=-1)),
                ((0,), (0, 1), (1,)),
            )
            for more in ((), (2,))
        ]
        for name in ("Sum", "Max", "Min", "Prod")
    },
}
