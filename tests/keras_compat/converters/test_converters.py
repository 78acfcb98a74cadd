"""Whether operations that are vectorised over rows give what a loop over the rows gives."""

import contextlib
import pathlib
import re
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.ops.parallel_for import pfor

import tfdpnorm
from tests.each import each
from tests.keras_compat.converters.case import Case, vectorized_map
from tests.keras_compat.converters.of_control_flow import CONTROL_FLOW
from tests.keras_compat.converters.of_layers import LAYERS
from tests.keras_compat.converters.of_numbers import NUMBERS
from tests.keras_compat.converters.of_shapes import SHAPES
from tfdpnorm.keras_compat.graphs import unoptimized
from tfdpnorm.keras_compat.vectorizable import VECTORIZABLE

TABLE = NUMBERS | SHAPES | LAYERS | CONTROL_FLOW
_ROWS = 3
_OF_SHAPES = {"BatchMatMulV2", "BroadcastTo", "Einsum", "SelectV2", "Squeeze", "Transpose"}
_VECTORISING = re.compile(r"tf\.vectorized_map\(|tape\.(batch_)?jacobian\(")


class Variant(NamedTuple):
    """A case, and which of its inputs differ between rows."""

    name: str
    case: Case
    inputs: list
    of_rows: tuple

    def of_row(self, row):
        """What a loop gives for one row."""
        inputs = [x[row] if i in self.of_rows else x[0] for i, x in enumerate(self.inputs)]
        return _values_and_gradients(self.case, inputs)


def _values_and_gradients(case, inputs):
    """Of a row: outputs, and the gradients of half the sum of their squares."""
    floats = [x for x in inputs if x.dtype.is_floating and case.gradient]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(floats)
        outputs = [_as_real(t) for t in tf.nest.flatten(case.call(*inputs))]
    floating = [t for t in outputs if t.dtype.is_floating]
    gradients = tape.gradient(floating, floats, floating) if floats and floating else []
    return outputs + [tf.convert_to_tensor(g) for g in gradients if g is not None]


def _as_real(x):
    return tf.stack([tf.math.real(x), tf.math.imag(x)]) if x.dtype.is_complex else x


def _found(variants, rows):
    """What all variants give for the first rows, in one vectorised function."""
    given = [
        [x[:rows] if i in v.of_rows else x[0] for i, x in enumerate(v.inputs)] for v in variants
    ]

    @tf.function(autograph=False)
    def all_rows(given):
        def one(row):
            results = []
            for variant, inputs, of_row in zip(variants, given, row, strict=True):
                inputs = [
                    of_row[variant.of_rows.index(i)] if i in variant.of_rows else x
                    for i, x in enumerate(inputs)
                ]
                results.append(_values_and_gradients(variant.case, inputs))
            return results

        pairs = zip(variants, given, strict=True)
        return vectorized_map(one, [[inputs[i] for i in v.of_rows] for v, inputs in pairs])

    return all_rows(given)


@contextlib.contextmanager
def _converted(seen):
    """Adds the operations that are vectorised to a set."""
    before = pfor._PforInput.__init__

    def noting(self, of, op, inputs):
        seen.add(op.type)
        before(self, of, op, inputs)

    pfor._PforInput.__init__ = noting
    try:
        yield
    finally:
        pfor._PforInput.__init__ = before


def test_only_what_the_table_holds_is_vectorised():
    assert sorted(TABLE) == sorted(VECTORIZABLE)


def test_all_that_vectorises_does_it_by_the_table():
    """`tf.vectorized_map` and Jacobians, the audit's and those of public rows too."""
    folder = pathlib.Path(tfdpnorm.__file__).parent
    texts = {str(f.relative_to(folder)): f.read_text("utf-8") for f in folder.rglob("*.py")}
    assert {file for file, text in texts.items() if _VECTORISING.search(text)} == {
        "gradients/map_rows.py",
        "gradients/engines/tfp.py",  # inside `refused_unless_vectorized`
        "keras_compat/corrections.py",  # a loop
    }


@each("initial", sorted({name[0] for name in TABLE}))
def test_it_is_as_in_a_loop_over_the_rows(initial):
    # TensorFlow 2.15 has no converters of some that 2.21 has, and runs them row by row.
    converters = pfor._pfor_converter_registry
    names = [name for name in sorted(TABLE) if name[0] == initial and name in converters]
    rng = np.random.default_rng(0)
    variants = []
    cases = {id(case): (name, case) for name in names for case in TABLE[name]}
    for of_which, case in cases.values():
        inputs = [tf.constant(draw(rng, _ROWS)) for draw in case.inputs]
        variants += [Variant(of_which, case, inputs, of_rows) for of_rows in case.choices()]
    # A single row matters where axes of one entry do.
    alone = [i for i, v in enumerate(variants) if v.name in _OF_SHAPES]
    seen = set()
    with _converted(seen), unoptimized():
        several = _found(variants, _ROWS)
        of_one = _found([variants[i] for i in alone], 1) if alone else []
    assert set(names) <= seen, "cases without their operation"
    single = dict(zip(alone, of_one, strict=True))
    for number, variant in enumerate(variants):
        of_each = [variant.of_row(r) for r in range(_ROWS)]
        for found in (several[number], single.get(number, several[number])):
            for one, of_loop in zip(found, zip(*of_each, strict=True), strict=True):
                expected, most = of_loop[: len(one)], variant.case.tolerance
                what = f"{variant.name} {variant.of_rows}"
                np.testing.assert_allclose(one, expected, most, most, err_msg=what)
