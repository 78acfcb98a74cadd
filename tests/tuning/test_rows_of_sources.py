"""Searches on sources: their rows are digested, and compared, as those of arrays are."""

import numpy as np
import pytest

from tests.sources import Source
from tfdpnorm.data import poisson_batches
from tfdpnorm.tuning.folder import inputs_of, rows_digest, rows_of_search

X = np.random.default_rng(0).random((600, 3)).astype(np.float32)
VALIDATION = (np.zeros((4, 3)), np.zeros(4))


def digest(x, y):
    batches = poisson_batches(Source(x, y), expected_batch_size=8)
    return rows_digest(rows_of_search(batches, None, VALIDATION, {}), b"key")


def test_every_value_of_every_example_is_digested():
    y = np.zeros(600)
    known = digest(X, y)
    assert digest(X.copy(), y.copy()) == known
    for row in (0, 255, 256, 599):
        x, labels = X.copy(), y.copy()
        x[row, 2] += 1
        labels[row] = 1
        assert len({known, digest(x, y), digest(X, labels)}) == 3
    assert digest(X[::-1], y) != known


def test_a_source_by_itself_is_rejected():
    with pytest.raises(TypeError, match="poisson_batches"):
        inputs_of(Source(X, X))
    assert inputs_of(X) is X
