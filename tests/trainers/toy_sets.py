"""Small random data in place of the sets that TensorFlow Datasets prepares."""

import numpy as np

# Images and classes by data set; photographs are smaller than they are.
_SETS = {
    "mnist": ((28, 28, 1), 10),
    "kmnist": ((28, 28, 1), 10),
    "cifar10": ((32, 32, 3), 10),
    "cifar100": ((32, 32, 3), 100),
    "160px-v2": ((32, 32, 3), 10),
    "tiny_imagenet": ((32, 32, 3), 200),
    "ag_news_subset": (None, 4),
}
_ROWS = {"train": 64}  # and 24 of the others


def count(folder, split):
    """Stands for `tfds.count`."""
    return _ROWS.get(split, 24)


def read(folder, split, kinds, num_classes, side=None):
    """Stands for `tfds.read`: random images, or texts of random words."""
    shape, classes = _SETS[folder]
    assert classes == num_classes
    rng = np.random.default_rng([len(folder), len(split)])
    rows = count(folder, split)
    columns = {"label": rng.integers(0, classes, rows)}
    if shape is None:
        words = rng.integers(0, 50, (rows, 9)).astype(str)
        text = np.array([" ".join(row).encode() for row in words], dtype=object)
        columns |= dict(title=text, description=text)
    else:
        columns["image"] = rng.integers(0, 256, (rows, *shape)).astype(np.uint8)
    assert set(kinds) == set(columns)
    return columns, tuple(map(str, range(classes)))
