"""Public characters in the form of DIGITS."""

import numpy as np
import pytest

from trainers.data.digits import as_digits


def test_a_filled_rectangle_fills_the_frame():
    """Wherever it stands and however large it is: 8 rows, 20 of 32 columns in the middle."""
    images = np.zeros((2, 28, 28, 1))
    images[0, 4:12, 2:9] = 1
    images[1, 10:27, 5:25] = 0.7
    row = np.array([0, 0.5, 1, 1, 1, 1, 0.5, 0], np.float32)
    np.testing.assert_array_equal(as_digits(images)[..., 0], np.broadcast_to(row, (2, 8, 8)))


def test_an_empty_image_stays_black_and_shapes_are_checked():
    assert not np.any(as_digits(np.full((3, 9, 9, 1), 0.3)))
    assert as_digits(np.zeros((0, 9, 9, 1))).shape == (0, 8, 8, 1)
    for shape in ((2, 8, 8), (2, 8, 8, 3)):
        with pytest.raises(ValueError, match="^Expected images"):
            as_digits(np.zeros(shape))
