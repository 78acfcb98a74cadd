"""The data sets of the experiments: their names, sizes and folders, without loading TensorFlow."""

import pathlib
from typing import NamedTuple

from trainers.data import tfds


class Source(NamedTuple):
    """A set and its official sizes; TensorFlow Datasets prepares all but "digits"."""

    train: int
    test: int
    num_classes: int
    shape: tuple | None  # Of an image as it is loaded; None for texts.
    test_split: str = "test"  # The name that TensorFlow Datasets has for it
    tfds_name: str | None = None  # None: its name here

    @property
    def is_text(self):
        """Whether its examples are texts."""
        return self.shape is None


SOURCES = {
    "ag_news_subset": Source(120_000, 7_600, 4, None),
    "cifar10": Source(50_000, 10_000, 10, (32, 32, 3)),
    "cifar100": Source(50_000, 10_000, 100, (32, 32, 3)),
    "digits": Source(1_437, 360, 10, (8, 8, 1)),  # of scikit-learn (`trainers.data.digits`)
    "imagenette": Source(
        9_469, 3_925, 10, (160, 160, 3), "validation", tfds_name="imagenette/160px-v2"
    ),
    "kmnist": Source(60_000, 10_000, 10, (28, 28, 1)),
    "mnist": Source(60_000, 10_000, 10, (28, 28, 1)),
    "tiny_imagenet": Source(100_000, 10_000, 200, (64, 64, 3), "validation"),
}
SPLITS = ("train", "test")


def known_names():
    """Returns the names that `trainers.data.sources.load_examples` takes, sorted."""
    return sorted(SOURCES)


def prepared(name, split, data_dir=None):
    """Returns the folder that TensorFlow Datasets has prepared, and its name for a split."""
    source = SOURCES[name]
    folder = tfds.prepared_folder(source.tfds_name or name, data_dir)
    return folder, source.test_split if split == "test" else split


def official_size(name, split):
    """Returns how many examples a split of a known set has where all of it is there."""
    return getattr(SOURCES[name], split)


def check_there(name, data_dir=None):
    """Raises unless a data set is where it is looked for; what it holds is not looked at.

    `name` is one of `known_names()`, or the path of a folder of images or of a CSV file.
    """
    if name not in SOURCES:
        files_at(name)
    elif name != "digits":
        prepared(name, "train", data_dir)


def files_at(name):
    """Returns the path of a data set of one's own, which is a folder or a CSV file."""
    path = pathlib.Path(name)
    if path.is_dir() or (path.suffix.lower() == ".csv" and path.is_file()):
        return path
    raise ValueError(
        f"Expected dataset to be one of {', '.join(known_names())}, a folder of images or a "
        f".csv file, got {name!r}."
    )


def counted(name, split, data_dir=None):
    """Returns how many examples a split of a known set has, without reading them."""
    if name == "digits":
        return official_size(name, split)
    return tfds.count(*prepared(name, split, data_dir))
