"""Random crops and flips: which windows there are, how often, and that rows stay apart."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.independence.outputs import prove
from tfdpnorm.layers import RandomCropAndFlip

SIZE = (5, 4)


def windows(image, padding, flip):
    """All windows of an image and its mirror images, from scratch: a dict from bytes to a place."""
    height, width, _ = image.shape
    edge = (padding, padding)
    padded = np.pad(image, (edge, edge, (0, 0)), mode="symmetric")
    found = {}
    for down in range(2 * padding + 1):
        for right in range(2 * padding + 1):
            window = padded[down : down + height, right : right + width]
            found[window.tobytes()] = (down, right, False)
            if flip:
                found[window[:, ::-1].tobytes()] = (down, right, True)
    return found


@each("padding, flip", [(0, True), (1, False), (2, True), (4, True)])
def test_a_view_is_one_of_all_windows_and_all_are_as_likely(padding, flip):
    image = np.random.default_rng(0).random((*SIZE, 3), np.float32)
    expected = windows(image, padding, flip)
    places = (2 * padding + 1) ** 2 * (1 + flip)
    count = 200 * places
    made = RandomCropAndFlip(padding, flip)(np.repeat(image[np.newaxis], count, 0), training=True)
    keys, counts = np.unique([view.tobytes() for view in made.numpy()], return_counts=True)
    assert {expected[key] for key in keys} == set(expected.values())
    if len(expected) == places:  # a mirrored window may be another one's mirror image
        # Chi-square, some ten standard deviations above its mean.
        statistic = np.sum((counts - 200) ** 2 / 200)
        assert statistic < places + 10 * np.sqrt(2 * places) + 10


def test_without_training_images_stay_as_they_are():
    images = np.random.default_rng(0).random((3, *SIZE, 1), np.float32)
    np.testing.assert_array_equal(RandomCropAndFlip(2)(images), images)
    np.testing.assert_array_equal(RandomCropAndFlip(2)(images, training=False), images)


def test_a_row_without_numbers_spoils_no_other():
    images = np.ones((8, *SIZE, 1), np.float32)
    images[3] = np.nan
    made = RandomCropAndFlip(2)(images, training=True).numpy()
    assert np.isnan(made[3]).all() and np.array_equal(np.delete(made, 3, 0), np.ones((7, *SIZE, 1)))
    views = RandomCropAndFlip(2)
    assert prove(lambda x: views(x, training=True), (tf.TensorSpec([8, 8, 8, 1]),), 8).holds


@each("shape", [(2, 3, 9, 1), (2, 9, 3, 1), (2, 9), (2, None, 9, 1)])
def test_images_too_small_for_the_padding_are_rejected(shape):
    with pytest.raises(ValueError, match="padding=4"):
        RandomCropAndFlip().build(shape)


def test_it_comes_back_from_its_config():
    layer = RandomCropAndFlip(3, flip=False, name="views")
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert again.get_config() == layer.get_config()
    with pytest.raises(ValueError, match="padding"):
        RandomCropAndFlip(-1)
