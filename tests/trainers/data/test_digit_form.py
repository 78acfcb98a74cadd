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


def test_it_is_stretched_and_counted_in_blocks():
    image = np.zeros((1, 10, 10, 1), np.float32)
    image[0, 2:7, 1] = image[0, 2, 1:6] = 1  # an upright and a bar at its top
    found = as_digits(image)[0, ..., 0]
    assert found.dtype == np.float32 and set(np.unique(found * 16)) <= set(range(17))
    assert found[0].sum() > 4 and np.all(found[3:, 4:] == 0)
    assert np.all(found[:, 1] > 0) and found[:, 0].sum() == 0
    # Each image by itself.
    both = as_digits(np.concatenate([np.flip(image, 2), image]))
    np.testing.assert_array_equal(both[1, ..., 0], found)


def test_an_empty_image_stays_black_and_shapes_are_checked():
    assert not np.any(as_digits(np.full((3, 9, 9, 1), 0.3)))
    assert as_digits(np.zeros((0, 9, 9, 1))).shape == (0, 8, 8, 1)
    for shape in ((2, 8, 8), (2, 8, 8, 3)):
        with pytest.raises(ValueError, match="^Expected images"):
            as_digits(np.zeros(shape))
