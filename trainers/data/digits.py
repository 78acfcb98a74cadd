"""The 1797 handwritten digits that ship with scikit-learn, a split of them, and their form.

The split has no seed: it is part of the data set. From each class, test images are taken at even
distances through the order of the file. So every class, and every stretch of the file (which
follows the writers), is in both parts in proportion. 360 images test and 1437 train. Published
work on this set uses other splits: Ermis and Cemgil name 1439 training and 360 test images, two
more than the set has, and other libraries split at random.
"""

import numpy as np
import tensorflow as tf

_TEST_SIZE = 360


def load(split):
    """Returns (x, y) of "train" or "test": float32 [N, 8, 8, 1] in [0, 1], and int32 [N]."""
    from sklearn.datasets import load_digits  # Slow to import, and only needed here.

    data = load_digits()
    is_test = _are_test_rows(data.target)
    rows = np.flatnonzero(is_test if split == "test" else ~is_test)
    images = (data.images[rows] / 16.0).astype(np.float32)[..., np.newaxis]  # Grey levels 0 to 16.
    return images, data.target[rows].astype(np.int32)


def _are_test_rows(labels):
    """Bool [N], `_TEST_SIZE` of them True, classes in proportion."""
    counts = np.bincount(labels)
    shares = counts * _TEST_SIZE / len(labels)
    sizes = np.floor(shares).astype(int)
    # The rows that rounding down left over go to the largest remainders, lower class first.
    leftover = _TEST_SIZE - sizes.sum()
    sizes[np.argsort(sizes - shares, kind="stable")[:leftover]] += 1
    is_test = np.zeros(len(labels), dtype=bool)
    for label, (count, size) in enumerate(zip(counts, sizes, strict=True)):
        positions = (2 * np.arange(size) + 1) * count // (2 * size)
        is_test[np.flatnonzero(labels == label)[positions]] = True
    return is_test


# --- other images in the form of these ---

_BITMAP = 32  # pixels a side, of which 4 x 4 are counted together
_WIDTH = 20  # of a character in the bitmap
_BLOCK = 4
_INK = 0.4  # from this brightness on, a pixel is on
_ROWS = 10_000  # at once


def as_digits(images):
    """Brings images of characters into the form of DIGITS, each by itself.

    The rectangle that holds the character is stretched to 32 x 20 pixels in the middle of a bitmap
    of 32 x 32, and the pixels that are on are counted in blocks of 4 x 4. The bitmap and the blocks
    are those of DIGITS' own description (Alpaydin and Kaynak 1998, "Optical recognition of
    handwritten digits", UCI Machine Learning Repository); 20 pixels of width and the thresholds are
    ours.

    Images are [M, H, W, 1] in [0, 1], bright characters on black. Returns float32 [M, 8, 8, 1],
    shares of pixels that are on. An image without any stays black.
    """
    images = np.asarray(images, np.float32)
    if images.ndim != 4 or images.shape[-1] != 1:
        raise ValueError(f"Expected images [M, H, W, 1], got {list(images.shape)}.")
    parts = [_in_blocks(images[i : i + _ROWS]) for i in range(0, len(images), _ROWS)]
    return np.concatenate(parts) if parts else np.zeros((0, 8, 8, 1), np.float32)


def _in_blocks(images):
    height, width = images.shape[1:3]
    on = images[..., 0] >= _INK
    top, bottom = _ends(on.any(axis=2))
    left, right = _ends(on.any(axis=1))
    # From the middle of the first pixel to that of the last, as shares of the same of the image.
    sides = np.maximum([height - 1, width - 1, height - 1, width - 1], 1)
    boxes = (np.stack([top, left, bottom, right], axis=1) / sides).astype(np.float32)
    with tf.device("/cpu:0"):
        stretched = tf.image.crop_and_resize(
            images, boxes, np.arange(len(images)), (_BITMAP, _WIDTH)
        )
        margin = (_BITMAP - _WIDTH) // 2
        bitmap = tf.pad(
            tf.cast(stretched >= _INK, tf.float32), [[0, 0], [0, 0], [margin, margin], [0, 0]]
        )
        return tf.nn.avg_pool2d(bitmap, _BLOCK, _BLOCK, "VALID").numpy()


def _ends(lines):
    """First and last of the lines [M, L] that are on; (0, L - 1) if none is."""
    first = lines.argmax(axis=1)
    last = lines.shape[1] - 1 - lines[:, ::-1].argmax(axis=1)
    return first, last
