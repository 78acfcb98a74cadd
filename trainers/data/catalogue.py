"""The data sets of the experiments: their names, sizes and folders, without loading TensorFlow."""

import dataclasses
import pathlib

from trainers.data import tfds

SPLITS = ("train", "test")


@dataclasses.dataclass(frozen=True)
class TfdsSource:
    """A set that TensorFlow Datasets prepares and its official sizes."""

    train: int
    test: int
    num_classes: int
    shape: tuple | None  # Of an image as it is loaded; None for texts.
    tfds_name: str | None = None  # None: its name here
    test_split: str = "test"

    @property
    def is_text(self):
        """Whether its examples are texts."""
        return self.shape is None

    def split(self, split):
        """The name that TensorFlow Datasets has for a split, "train" or "test"."""
        return self.test_split if split == "test" else split


TFDS_SOURCES = {
    "mnist": TfdsSource(60_000, 10_000, 10, (28, 28, 1)),
    "kmnist": TfdsSource(60_000, 10_000, 10, (28, 28, 1)),
    "cifar10": TfdsSource(50_000, 10_000, 10, (32, 32, 3)),
    "cifar100": TfdsSource(50_000, 10_000, 100, (32, 32, 3)),
    "imagenette": TfdsSource(
        9_469,
        3_925,
        10,
        (160, 160, 3),
        tfds_name="imagenette/160px-v2",
        test_split="validation",
    ),
    "tiny_imagenet": TfdsSource(100_000, 10_000, 200, (64, 64, 3), test_split="validation"),
    "ag_news_subset": TfdsSource(120_000, 7_600, 4, None),
}
# Comes with scikit-learn (`trainers.data.digits`).
_DIGITS = {"train": 1_437, "test": 360, "shape": (8, 8, 1), "num_classes": 10}


def known_names():
    """Returns the names that `trainers.data.sources.load_examples` takes, sorted."""
    return sorted([*TFDS_SOURCES, "digits"])


def prepared(name, data_dir=None):
    """Returns the folder of one of `TFDS_SOURCES` that TensorFlow Datasets has prepared."""
    return tfds.prepared_folder(TFDS_SOURCES[name].tfds_name or name, data_dir)


def image_shape(name):
    """Returns the shape of a known set's images, None for texts."""
    return _DIGITS["shape"] if name == "digits" else TFDS_SOURCES[name].shape


def num_classes(name):
    """Returns how many classes a known set has."""
    return _DIGITS["num_classes"] if name == "digits" else TFDS_SOURCES[name].num_classes


def official_size(name, split):
    """Returns how many examples a split of a known set has where all of it is there."""
    return _DIGITS[split] if name == "digits" else getattr(TFDS_SOURCES[name], split)


def check_there(name, data_dir=None):
    """Raises unless a data set is where it is looked for; what it holds is not looked at.

    `name` is one of `known_names()`, or the path of a folder of images or of a CSV file.
    """
    if name in TFDS_SOURCES:
        prepared(name, data_dir)
    elif name != "digits":
        files_at(name)


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
    return tfds.count(prepared(name, data_dir), TFDS_SOURCES[name].split(split))
