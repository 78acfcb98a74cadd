"""Each rule's verdict, and that no perturbation of an example refutes it."""

import pytest
import tensorflow as tf

from tests.each import each
from tests.independence.verification import (
    cases_of_indices,
    cases_of_others,
    cases_of_places,
    cases_of_positions,
    cases_of_values,
)
from tests.independence.verification.cases_of_values import FIRST, MIXED
from tests.independence.verification.perturbation import refuted, traced, verdicts_of
from tfdpnorm.independence.verification.verdicts import FREE, Mixed

TABLES = {
    "broadcasts": cases_of_values.BROADCASTS,
    "products": cases_of_values.PRODUCTS,
    "reductions": cases_of_values.REDUCTIONS,
    "images": cases_of_values.IMAGES,
    "shapes": cases_of_places.SHAPES,
    "parts": cases_of_places.PARTS,
    "lookups": cases_of_places.LOOKUPS,
    "control": cases_of_places.CONTROL,
    "others": cases_of_others.OTHERS,
    "indices": cases_of_indices.INDICES,
    "positions": cases_of_positions.POSITIONED,
}
CASES = {f"{t}-{name}": case for t, table in TABLES.items() for name, case in table.items()}


CHANCE = ("dropout", "on_chance", "by_chance", "chosen")  # no two runs are the same


@each("name", CASES)
def test_the_verdict_is_the_expected_one_and_cannot_be_refuted(name):
    function, specs, expected = CASES[name]
    concrete = traced(function, specs)
    verdict = verdicts_of(concrete)[0][0]
    if expected == MIXED:
        assert isinstance(verdict, Mixed), verdict
    else:
        assert verdict == expected
        if not name.endswith(CHANCE):
            assert refuted(concrete, specs) == set()


def test_the_gradient_of_a_product_with_one_example_is_verified():
    """It has a sum along the axis of the examples, which is one entry."""

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.matmul(x, tf.ones([4, 2])) ** 2
        return tape.gradient(y, x)

    for examples in (1, 2):
        concrete = traced(gradient, [tf.TensorSpec([examples, 5, 4])])
        assert verdicts_of(concrete, examples) == ([FIRST], [])


GRADIENTS = sorted(
    name
    for name, (_, specs, expected) in CASES.items()
    if expected not in (MIXED, FREE)
    and not name.startswith("others")
    and all(s.dtype.is_floating for s in specs)
)
# Without a gradient, or with one that passes through a kernel that has no rule.
NO_GRADIENT = (
    "compared",
    "argmax",
    "top_k",
    "identity",
    "images-contrast",
    "drawn_classes",
    "index_in_the_batch",
)
NO_GRADIENT += CHANCE


# Examples do not meet in it, but to see it takes more than the rules know: an axis that a function
# gets as an argument leaves it without static shapes.
GAPS = ("control-call_with_axes",)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRADIENTS)
def test_the_gradient_of_what_keeps_examples_apart_does_so_too(name):
    function, specs, _ = CASES[name]

    def gradients(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = tf.nest.flatten(function(*inputs))
            total = tf.add_n([tf.reduce_sum(tf.abs(y) ** 2) for y in outputs])
        found = tape.gradient(total, inputs)
        return [tf.convert_to_tensor(g) for g in found if g is not None]

    if name.endswith(NO_GRADIENT):
        return
    concrete = traced(gradients, specs)
    verdicts = verdicts_of(concrete)[0]
    assert verdicts
    if name in GAPS:
        assert any(isinstance(v, Mixed) for v in verdicts)
        return
    assert set(verdicts) <= {FREE, FIRST}, verdicts
    assert refuted(concrete, specs) == set()
