"""The rule of EinsumDense, over the forms of its equation."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.invariants import (
    assert_graph_equals_eager,
    assert_nonfinite_row_counts_as_zero,
    head,
    side_by_side,
)
from tests.gradients.looped_reference import assert_equals_the_loop, double_precision
from tfdpnorm.gradients import Instantiated, book_keeping
from tfdpnorm.gradients.contributions.contribution import BlockOuterSum
from tfdpnorm.gradients.rules import dense, rule_for

layers = keras.layers


# Shape of the input, equation, output shape, axes of the bias.
EQUATIONS = [
    ((3,), "ab,bc->ac", 4, "c"),
    ((5, 3), "abc,cd->abd", (5, 4), "d"),
    ((5, 3), "abc,cd->abd", (5, 4), "bd"),
    ((5, 3), "abc,cd->adb", (4, 5), "d"),
    ((5, 3), "abc,dc->abd", (5, 4), None),  # the output's axis is the kernel's first
    ((5, 3), "abc,cb->a", (), None),  # no axis but the rows in the output
    ((5, 3), "abc,bcd->ad", 4, "d"),
    ((5, 3), "abc,cbd->ad", 4, "d"),
    ((5, 3), "abc,bd->adc", (4, 3), "dc"),
    ((5, 3), "abc,bde->adce", (2, 3, 2), "de"),
    ((4, 5, 3), "abcd,dbe->ace", (5, 2), "e"),  # contracted axes in another order
    ((4, 5, 3), "abcd,ebfd->acef", (5, 2, 2), "ef"),  # output and contracted axes interleaved
    ((4, 5, 3), "abcd,d->abc", (4, 5), "c"),
    ((5, 3), "abc,d->abcd", (5, 3, 2), "d"),  # nothing contracted
    ((5, 3), "abc,d->ad", 2, "d"),  # input axes that are summed over without a weight
    ((4, 5, 3), "abcd,de->abe", (4, 2), "be"),
    ((5, 3), "abc,bcd->abd", (5, 4), "bd"),  # weights of its own for each b
    ((5, 3), "abc,bcd->abd", (5, 4), "d"),
    ((3,), "ab,b->ab", 3, "b"),
    ((5, 3), "abc,c->abc", (5, 3), "c"),
    ((5, 3), "abc,bc->abc", (5, 3), "bc"),
    ((4, 5, 3), "abcd,cde->abce", (4, 5, 2), "ce"),
    ((2, 5, 3), "abcd,ecd->abce", (2, 5, 7), "ce"),
    ((2, 5, 9), "abcd,ced->aebc", (8, 2, 5), None),  # blocks by Gram matrices
    ((3,), "...x,xy->...y", 4, "y"),
    ((5, 3), "...x,xy->...y", 4, "y"),
    ((2, 5, 3), "...x,xyz->...yz", (4, 2), "z"),
    ((2, 5, 3), "...bx,bxy->...by", (5, 4), "by"),
    ((5, 3), "ab...,bc->ac...", 4, "c"),
    ((5, 3, 2), "ab...,bc->ac...", 4, "c"),
    ((5, 3, 2), "ab...,cb->ac...", 4, "c"),
]


def test_equals_the_loop():
    keras.utils.set_random_seed(3)
    cases = []
    with double_precision():
        for shape, equation, output_shape, bias_axes in EQUATIONS:
            options = dict(bias_axes=bias_axes, activation="tanh", bias_initializer="ones")
            cases.append((shape, layers.EinsumDense(equation, output_shape, **options)))
        model = side_by_side(*cases)
    assert all(rule_for(layer) is not None for _, layer in cases)
    assert_equals_the_loop(model, counts=(1, 3), tolerance=1e-9)


def test_a_stack_called_twice_equals_the_loop():
    keras.utils.set_random_seed(3)
    shared = [
        layers.EinsumDense("abc,cd->abd", (5, 3), bias_axes="d"),
        layers.EinsumDense("abc,bcd->abd", (5, 3), bias_axes="bd", activation="tanh"),
        layers.EinsumDense("abc,dc->adb", (3, 5)),
        layers.Permute((2, 1)),
    ]
    inputs = keras.Input((5, 3))
    x = inputs
    for layer in 2 * shared:
        x = layer(x)
    assert_equals_the_loop(keras.Model(inputs, head(x)))


@each("known", ["rows", "nothing"])
def test_shapes_that_are_not_known_before(known):
    keras.utils.set_random_seed(3)
    inputs = keras.Input((None, 3))
    x = layers.EinsumDense("abc,cd->abd", (None, 4), bias_axes="d", activation="tanh")(inputs)
    x = layers.EinsumDense("abc,c->abc", (None, 4))(x)
    model = keras.Model(inputs, layers.Dense(2)(layers.GlobalAveragePooling1D()(x)))
    rows = (tf.random.normal([4, 6, 3]), tf.zeros([4, 2]), tf.ones(4), tf.ones(4))
    count = 4 if known == "rows" else None
    assert_graph_equals_eager(model, rows, [count, None, None], [count, 2])


def test_other_equations_use_the_fallback(monkeypatch):
    monkeypatch.setattr(dense, "rank_of_output", lambda layer: 2)
    for equation in ("abb,bc->ac", "aab,bc->ac"):
        assert rule_for(layers.EinsumDense(equation, (4,))) is None


@pytest.mark.keras_2_only("refuses another rank than that of the first input by itself")
def test_rows_that_mix_are_rejected():
    layer = layers.EinsumDense("...x,xy->...y", 4)
    model = keras.Sequential([keras.Input((3,)), layer])
    variables = layer.trainable_variables

    def loss_fn(x, y, weight):
        total = layer(tf.reduce_sum(x, 0))
        return tf.fill([4], tf.reduce_sum(total)) * weight, y

    rows = (tf.ones([4, 3]), tf.zeros([4, 2]), tf.ones(4), tf.ones(4))
    with pytest.raises(ValueError, match="einsum"):
        book_keeping(model, loss_fn, rows, variables, 0.1)


def test_a_row_that_is_not_finite_counts_as_zero():
    model = side_by_side(
        ((5, 3), layers.EinsumDense("abc,bcd->abd", (5, 3))),
        ((5, 3), layers.EinsumDense("abc,dc->abd", (5, 4))),
    )
    assert_nonfinite_row_counts_as_zero(model, np.inf)


# --- blocks ---


@each("positions, d, p", [(1, 3, 4), (2, 6, 7), (9, 2, 3)])
def test_blocks_in_their_three_forms(positions, d, p):
    """One position, Gram matrices, instantiated matrices: norms and sums are the same."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(6, 5, positions, d)), rng.normal(size=(6, 5, positions, p))
    order = [1, 0, 2]
    gradients = np.einsum("nktd,nktp->ndkp", a, b)
    factors, finite = tf.constant(rng.uniform(size=6)), tf.fill([6], True)

    def check(part, expected):
        count = len(expected)
        np.testing.assert_allclose(part.instantiated(), expected)
        np.testing.assert_allclose(part.squared_norms(), np.square(expected).sum((1, 2, 3)))
        total = part.weighted_sum(factors[:count], finite[:count])
        np.testing.assert_allclose(total, np.tensordot(factors[:count], expected, 1))

    part = BlockOuterSum(a, b, [5, d, p], order, [d, 5, p])
    check(part, gradients)
    check(part.merged(part), 2 * gradients)
    check(part.merged(Instantiated(gradients)), 2 * gradients)
    check(part.grouped(2), gradients.reshape(3, 2, d, 5, p).sum(1))
