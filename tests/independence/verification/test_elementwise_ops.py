"""Every operation that counts as element-wise is, on tensors that its kernel takes."""

import inspect

import tensorflow as tf

from tests.each import each
from tests.independence.verification.perturbation import P, refuted, spec, traced, verdicts_of
from tfdpnorm.independence.verification.rules import elementwise
from tfdpnorm.independence.verification.verdicts import Rows

DTYPES = (tf.float32, tf.int32, tf.bool)
# Attributes that have no default.
ATTRIBUTES = {
    "AsString": {},
    "Bucketize": {"boundaries": [0.0, 1.0]},
    "Cast": {"DstT": tf.float64},
    "CheckNumerics": {"message": ""},
    "EnsureShape": {"shape": [P, 4]},
    "PlaceholderWithDefault": {"shape": [P, 4]},
}
# They take strings or complex numbers, which the perturbation does not make; or lists of tensors;
# and a check of numbers ends the run where the perturbation puts none.
OTHERS = """
AddN Angle CheckNumerics Complex ComplexAbs Conj Imag Real RegexFullMatch StaticRegexFullMatch
StaticRegexReplace StringJoin StringLength StringLower StringStrip StringToHashBucket
StringToHashBucketFast StringToNumber StringUpper
""".split()
NAMES = sorted({*elementwise._ONE.split(), *elementwise._SEVERAL.split()} - set(OTHERS))


def arguments_of(name):
    """Names of the inputs of an operation: those of its wrapper that are no attributes."""
    parameters = inspect.signature(getattr(tf.raw_ops, name)).parameters
    attributes = ATTRIBUTES.get(name, {})
    return [
        p.name
        for p in parameters.values()
        if p.default is inspect.Parameter.empty and p.name not in attributes
    ]


def function_of(name):
    """The operation as a function of as many tensors as it takes, and their specs."""
    operation, arguments = getattr(tf.raw_ops, name), arguments_of(name)

    def function(*inputs):
        return operation(**dict(zip(arguments, inputs, strict=True)), **ATTRIBUTES.get(name, {}))

    for dtype in DTYPES:
        specs = [spec(4, dtype=dtype) for _ in arguments]
        if name.startswith("Select"):
            specs[0] = spec(4, dtype=tf.bool)
        try:
            function(*map(_ones, specs))
        except (TypeError, ValueError, tf.errors.OpError):
            continue
        return function, specs
    raise AssertionError(f"no kernel of {name} takes any of {DTYPES}")


def _ones(spec):
    return tf.cast(tf.ones(spec.shape), spec.dtype)


@each("name", NAMES)
def test_an_elementwise_operation_keeps_examples_apart(name):
    function, specs = function_of(name)
    concrete = traced(function, specs)
    assert verdicts_of(concrete)[0] == [Rows(0)]
    if "Mod" in name or "Div" in name:
        return  # of integers, kernels refuse to divide by 0
    assert refuted(concrete, specs) == set()
