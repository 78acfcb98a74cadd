"""`Clipping` as a value: its sensitivity holds for every grouping, function, weight and scale."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.each import each
from tfdpnorm.gradients import Clipping, clipped_sum

NORM = 3.0  # not 1, where C, C^2 and min(C, 1) are the same


def example_gradients(seed, rows=6):
    """Gradients of three variables, from tiny to huge: list of [rows, ...]."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-3, 4, size=rows)
    shapes = [(4,), (2, 3), (1,)]
    return [
        tf.constant(
            (sizes.reshape(-1, *[1] * len(s)) * rng.normal(size=(rows, *s))).astype("float32")
        )
        for s in shapes
    ]


def vector(gradients):
    return np.concatenate([np.ravel(g) for g in gradients]).astype(np.float64)


@each(
    "grouping, function, weights",
    itertools.product(("flat", "per_layer"), ("abadi", "automatic"), (None, (8.0, 1.0, 0.25))),
)
def test_one_example_moves_the_sum_by_at_most_the_sensitivity(grouping, function, weights):
    clipping = Clipping(NORM, grouping, function).of_variables(layers=[0, 1, 1], weights=weights)
    gradients = example_gradients(seed=0)
    rows = gradients[0].shape[0]
    moved = []
    for row in range(rows):
        mask = np.ones(rows, np.float32)
        mask[row] = 0.0
        whole, _ = clipped_sum(gradients, tf.ones(rows), clipping)
        without, _ = clipped_sum(gradients, tf.constant(mask), clipping)
        moved.append(np.linalg.norm(vector(whole) - vector(without)))
    assert max(moved) <= clipping.sensitivity * (1 + 1e-5)
    # The bound is met: the noise is no larger than it has to be.
    assert max(moved) >= 0.7 * clipping.sensitivity


def test_each_layer_gets_its_share_of_the_norm():
    clipping = Clipping(NORM, "per_layer").of_variables(layers=["a", "b", "b"])
    huge = [1e6 * g[:1] for g in example_gradients(seed=1)]
    (a, b, c), _ = clipped_sum(huge, tf.ones(1), clipping)
    assert np.linalg.norm(a) == pytest.approx(NORM / np.sqrt(2), rel=1e-5)
    assert np.linalg.norm(vector([b, c])) == pytest.approx(NORM / np.sqrt(2), rel=1e-5)


def test_flat_clipping_ignores_layers():
    assert Clipping(NORM).of_variables(layers=[0, 1, 2]).groups is None


def test_per_layer_clipping_without_layers_is_rejected():
    with pytest.raises(ValueError, match="layer of each variable"):
        clipped_sum(example_gradients(seed=2), tf.ones(6), Clipping(NORM, "per_layer"))


def test_weights_multiply_what_is_not_clipped():
    gradients = example_gradients(seed=3)
    clipping = Clipping(np.inf, weights=(2.0, 3.0, 4.0))
    weighted, _ = clipped_sum(gradients, tf.ones(6), clipping)
    plain, _ = clipped_sum(gradients, tf.ones(6), np.inf)
    for w, p, factor in zip(weighted, plain, clipping.weights, strict=True):
        np.testing.assert_allclose(w, factor * p, rtol=1e-6)


def test_a_number_is_flat_clipping_to_that_norm():
    assert Clipping.of(NORM) == Clipping(NORM, "flat", "abadi", 1.0, None, None)
    assert Clipping.of(Clipping(NORM, "per_layer")).grouping == "per_layer"


@each(
    "values, message",
    [
        *(((value,), "l2_norm_clip") for value in (0.0, -1.0, float("nan"), "1", True)),
        ((NORM, "per_row"), "grouping"),
        ((NORM, "flat", "soft"), "function"),
        ((np.inf, "flat", "automatic"), "l2_norm_clip"),
        ((NORM, "flat", "abadi", 0.0), "loss_scale"),
        ((NORM, "flat", "abadi", 1e9), "loss_scale"),
    ],
)
def test_values_out_of_range_are_rejected(values, message):
    with pytest.raises(ValueError, match=message):
        Clipping(*values)
