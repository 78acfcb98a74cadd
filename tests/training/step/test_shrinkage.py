"""Shrinking of noised vectors; test_release.py has where the pull-back uses it."""

import numpy as np
import pytest
import tensorflow as tf

from tfdpnorm.training.post_processing import shrunk
from tfdpnorm.training.public_rows import PublicBatch


def test_the_formula():
    x = np.array([3.0, 0.0, -4.0, 12.0], np.float32)
    expected = (1 - 2 * 1.5**2 / 169) * x
    np.testing.assert_allclose(shrunk(tf.constant(x), 1.5), expected, rtol=1e-6)
    np.testing.assert_array_equal(shrunk(tf.constant(x), 0.0), x)
    np.testing.assert_array_equal(shrunk(tf.constant(x), 100.0), 0 * x)
    np.testing.assert_array_equal(shrunk(tf.constant(x[:2]), 100.0), x[:2])
    np.testing.assert_array_equal(shrunk(tf.zeros(5), 1.0), np.zeros(5))


def test_invalid_pull_back_is_rejected():
    with pytest.raises(ValueError, match="'half'"):
        PublicBatch([[1.0], [2.0]], pull_back="half")
