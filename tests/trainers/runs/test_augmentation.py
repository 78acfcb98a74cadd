"""The views that experiments train on: where they are moved to, and what is rejected."""

import numpy as np
import pytest

from tfdpnorm.layers import RandomCropAndFlip
from trainers.runs.build import augmentations
from trainers.runs.private import PrivateRun


@pytest.mark.parametrize("count, reach", [(5, 1), (9, 2)])
@pytest.mark.parametrize("shape", [(9, 9, 1), (8, 5, 3)])
def test_views_are_the_image_and_it_moved_by_a_pixel(count, reach, shape):
    images = np.random.default_rng(0).random((4, *shape), np.float32)
    height, width, _ = shape
    moves = [
        (down, right)
        for down in (-1, 0, 1)
        for right in (-1, 0, 1)
        if abs(down) + abs(right) <= reach
    ]
    assert len(moves) == count
    # From scratch, pixel by pixel: what leaves on one side is mirrored in on the other.
    rows, columns = np.arange(height), np.arange(width)
    expected = [
        images[:, np.clip(rows - down, 0, height - 1)][:, :, np.clip(columns - right, 0, width - 1)]
        for down, right in moves
    ]
    made = [view(images).numpy() for view in augmentations(count, shape)]
    np.testing.assert_array_equal(made[0], images)
    for view in made:
        assert sum(np.array_equal(view, other) for other in expected) == 1
    assert len({view.tobytes() for view in made}) == count


@pytest.mark.parametrize("shape", [(16,), (48, 16), (1, 28, 1), (28, 1, 1)])
def test_rows_that_are_no_images_are_rejected(shape):
    with pytest.raises(ValueError, match="augmentation_multiplicity=5, got rows of shape"):
        augmentations(5, shape)


@pytest.mark.parametrize("views", ["moved", "random"])
def test_a_run_is_made_with_its_kind_of_views(tiny_spec, tiny_data, views):
    spec = tiny_spec(augmentation_multiplicity=5, views=views, physical_batch_size=8)
    made = PrivateRun(spec, tiny_data).model._update.views
    assert made.multiplicity == 5
    assert {isinstance(view, RandomCropAndFlip) for view in made.augmentations} == {
        views == "random"
    }
