"""Gradients that are not finite count as zero; if many do, `fit` says so at once."""

import warnings

import numpy as np
import pytest

WARNS = "were not finite"


def messages(model, data, cross_entropy):
    model.compile("sgd", cross_entropy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data, verbose=0)
    return [str(w.message) for w in caught if "were not finite" in str(w.message)]


def large(data):
    return data[0] * np.float32(1e38), data[1]


@pytest.mark.parametrize("steps_per_epoch, steps_per_execution", [(1, 1), (4, 4)])
def test_it_warns_once(build, private, data, cross_entropy, steps_per_epoch, steps_per_execution):
    trained = private(build(), expected_batch_size=40)  # all rows: a small lot would not do
    trained.compile("sgd", cross_entropy, steps_per_execution=steps_per_execution)
    with pytest.warns(UserWarning, match=WARNS) as caught:
        trained.fit(*large(data), verbose=0, steps_per_epoch=steps_per_epoch)
    (said,) = [str(w.message) for w in caught if "were not finite" in str(w.message)]
    assert "float16" not in said and "square root" in said


def test_it_is_silent_about_few(build, private, data, cross_entropy):
    x = data[0].copy()
    x[::5] *= np.float32(1e38)
    for rows in (x, data[0]):
        trained = private(build(), expected_batch_size=40)
        assert not messages(trained, (rows, data[1]), cross_entropy)
