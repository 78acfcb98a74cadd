"""Multi-view augmentation: the views of an image that an experiment trains on."""

import functools

import tensorflow as tf

from tfdpnorm.layers import RandomCropAndFlip

# Rows down and columns right: the image, its four nearest places, and the four behind them. Other
# counts would favour a direction.
_MOVES = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))


def augmentations(count, shape, views="moved"):
    """Returns what makes the views of images for `make_private`; None for the image alone.

    "moved": a list of functions. The first view is the image itself; in the others it is moved by a
    pixel, along one axis or both, and mirrored at the border. They are the same at every update.

    "random": a layer, `RandomCropAndFlip`, for every view, also for a single one. What it draws
    depends on no image, and need not be secret.

    Args:
        count: How many; of "moved" one of `trainers.specs.checks.MULTIPLICITIES`.
        shape: Shape of a row of the training set.
        views: One of `trainers.specs.private.VIEWS`.

    Raises:
        ValueError: if rows of this shape are no images.
    """
    if count == 1 and views == "moved":
        return None
    if len(shape) != 3 or min(shape[:2]) < 2:
        raise ValueError(
            f"Expected images of 2 or more pixels in height and width with augmentation_"
            f"multiplicity={count}, got rows of shape {tuple(shape)}. For texts, and for networks "
            "with a frozen part, set augmentation_multiplicity=1."
        )
    if views == "random":
        return RandomCropAndFlip()
    return [functools.partial(_moved, down=down, right=right) for down, right in _MOVES[:count]]


def _moved(images, down, right):
    height, width = images.shape[1:3]
    padded = tf.pad(images, [[0, 0], [1, 1], [1, 1], [0, 0]], "SYMMETRIC")
    return padded[:, 1 - down : 1 - down + height, 1 - right : 1 - right + width]
