"""Gradients that are not finite count as zero; if many do, `fit` says so at once."""

import warnings

import numpy as np
import pytest
from tensorflow import keras

from tests.sources import Source

WARNS = "More than a quarter of the gradients of the first . update.s. were not finite"


def messages(model, data, cross_entropy, **fit):
    model.compile("sgd", cross_entropy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data, verbose=0, **fit)
    return [str(w.message) for w in caught if "were not finite" in str(w.message)]


def large(data):
    return data[0] * np.float32(1e38), data[1]


@pytest.mark.parametrize("steps_per_epoch", [1, 4])
@pytest.mark.parametrize("steps_per_execution", [1, 4])
def test_it_warns_once(build, private, data, cross_entropy, steps_per_epoch, steps_per_execution):
    trained = private(build(), expected_batch_size=40)  # all rows: a small lot would not do
    trained.compile("sgd", cross_entropy, steps_per_execution=steps_per_execution)
    with pytest.warns(UserWarning, match=WARNS) as caught:
        trained.fit(*large(data), verbose=0, steps_per_epoch=steps_per_epoch)
    (said,) = [str(w.message) for w in caught if "were not finite" in str(w.message)]
    assert "Clipping(loss_scale=...), which is 1, " in said and "keep it with them" in said


def test_inputs_of_70000_in_half_precision(private, set_policy):
    set_policy("mixed_float16")
    model = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(4), keras.layers.Dense(3, dtype="float32")]
    )
    x, y = np.full((40, 5), 70_000, np.float32), np.arange(40) % 3
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    (said,) = messages(private(model), (x, y), loss)
    assert "which is 1024" in said


def test_it_is_silent_about_few(build, private, data, cross_entropy):
    x = data[0].copy()
    x[::5] *= np.float32(1e38)
    for rows in (x, data[0]):
        trained = private(build(), expected_batch_size=40)
        assert not messages(trained, (rows, data[1]), cross_entropy)


def test_half_of_a_source_is_nan(build, private, data, cross_entropy):
    trained = private(build(), expected_batch_size=40)
    rows = np.where(np.arange(40)[:, np.newaxis] % 2, data[0], np.nan).astype(np.float32)
    (said,) = messages(trained, [Source(rows, data[1])], cross_entropy)
    assert "look for NaN and infinity in inputs, targets and weights" in said


def test_a_short_fit_is_looked_at_at_its_end(build, private, data, cross_entropy):
    found = messages(private(build(), steps=2), large(data), cross_entropy)
    assert len(found) == 1 and "first 2 update(s)" in found[0]
