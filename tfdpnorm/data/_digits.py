"""The 1797 handwritten digits that ship with scikit-learn, and a split of them.

The split has no seed: it is part of the data set. From each class, test images are taken at even
distances through the order of the file. So every class, and every stretch of the file (which
follows the writers), is in both parts in proportion. 360 images test and 1437 train. Published
work on this set uses other splits: Ermis and Cemgil name 1439 training and 360 test images, two
more than the set has, and other libraries split at random.
"""

import numpy as np

_TEST_SIZE = 360


def load(split):
    """Returns (x, y) of "train" or "test": float32 [N, 8, 8, 1] in [0, 1], and int32 [N]."""
    from sklearn.datasets import load_digits  # Slow to import, and only needed here.

    data = load_digits()
    is_test = _test_rows(data.target)
    rows = np.flatnonzero(is_test if split == "test" else ~is_test)
    images = (data.images[rows] / 16.0).astype(np.float32)[..., np.newaxis]  # Grey levels 0 to 16.
    return images, data.target[rows].astype(np.int32)


def _test_rows(labels):
    """Marks the test rows: bool [N], `_TEST_SIZE` of them True, classes in proportion."""
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
