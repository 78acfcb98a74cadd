"""Clipping per layer, by Abadi's factor and automatically, against the definition."""

import numpy as np
import pytest
from tensorflow import keras

from tests.training.step.looped import looped_sum

CLIP = 0.5


@pytest.mark.parametrize(
    "engine, clipping, function",
    [("book_keeping", "per_layer", "automatic"), ("per_example", "per_layer", "abadi")],
)
def test_equals_the_definition(
    compiled, engine, clipping, function, build, step_sum, one_lot, data, cross_entropy
):
    model = build(norm="layer")
    x, y = data[0][:9].copy(), data[1][:9]
    x[3] *= 30.0
    x[4] *= 1e-3
    trained = compiled(
        model, engine=engine, clipping=clipping, clip_function=function, l2_norm_clip=CLIP
    )
    lot = one_lot(x, y, rows=4)
    expected = looped_sum(
        model,
        lambda i: cross_entropy(y[i : i + 1], model(x[i : i + 1])),
        len(x),
        CLIP,
        clipping,
        function,
    )
    np.testing.assert_allclose(step_sum(trained)(lot), expected, rtol=1e-5, atol=1e-6)


def test_a_row_not_finite_in_one_layer_counts_as_zero_in_all(private, step_sum, one_lot):
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(3, "relu"), keras.layers.Dense(1)]
    )
    model.layers[0].set_weights([np.full((2, 3), 0.5, np.float32), np.zeros(3, np.float32)])
    trained = private(model, engine="per_example", clipping="per_layer")
    trained.compile("sgd", "mse")
    run = step_sum(trained)
    x, y = np.ones((4, 2), np.float32), np.full((4, 1), 9.0, np.float32)
    without = run(one_lot(x[1:], y[1:], padding=1))
    x[0] = 1e30  # the outputs are finite, the squares are not
    np.testing.assert_allclose(run(one_lot(x, y)), without, rtol=1e-6)
    assert run.nonfinite == 1
