"""What adding or removing one row changes in the clipped sum: the bound that epsilon rests on."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.layers import PublicBatchNormalization

CLIP, ROWS = 0.5, 16


def sum_without_noise(private, step_sum, public, cross_entropy, statistics, engine):
    """Returns lot -> clipped sum, for a network with two normalisations of the mode."""
    model = keras.Sequential([keras.Input((5,))])
    for _ in range(2):
        model.add(keras.layers.Dense(8))
        model.add(PublicBatchNormalization(statistics=statistics))
        model.add(keras.layers.Activation("tanh"))
    model.add(keras.layers.Dense(3))
    model.layers[1].gamma.assign(np.linspace(-2, 2, 8))
    trained = private(model, engine=engine, public_batch=public, l2_norm_clip=CLIP)
    trained.compile("sgd", cross_entropy)
    return step_sum(trained)


def largest_change(run, one_lot, data):
    """The largest norm by which an added row moves the sum, over outliers and labels; in C."""
    x, y = data[0][:ROWS], data[1][:ROWS]
    without = run(one_lot(x[1:], y[1:], padding=1))
    assert np.linalg.norm(without) > CLIP  # there is something to be moved
    changes = []
    for scale in (1, 10, 100, 1e4):
        for label in (0, 2):
            # In front: an added row may take any place.
            row = np.full((1, 5), scale, np.float32) * np.sign(x[:1])
            lot = one_lot(np.concatenate([row, x[1:]]), np.append(label, y[1:]))
            changes.append(np.linalg.norm(run(lot).astype(np.float64) - without) / CLIP)
    return max(changes)


@pytest.mark.slow_cases("example-*")
@pytest.mark.parametrize(
    ("statistics", "engine"),
    [("public", "book_keeping"), ("blend", "per_example"), ("example", "per_example")],
)
def test_one_row_changes_the_sum_by_at_most_the_clip(
    statistics, engine, private, step_sum, one_lot, data, public, cross_entropy
):
    run = sum_without_noise(private, step_sum, public, cross_entropy, statistics, engine)
    change = largest_change(run, one_lot, data)
    assert 0.5 < change <= 1 + 1e-5  # clipping is active, and holds
