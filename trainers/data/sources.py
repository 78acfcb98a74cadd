"""The data sets of the experiments, by name."""

import dataclasses

import numpy as np

from tfdpnorm import arguments
from tfdpnorm.data.examples import Examples
from trainers.data import digits, tfds


@dataclasses.dataclass(frozen=True)
class _TfdsSource:
    """A set that TensorFlow Datasets prepares: its official sizes, and the host to load it from."""

    train: int
    test: int
    host: str
    num_classes: int
    is_text: bool = False
    tfds_name: str | None = None  # None: its name here
    test_split: str = "test"
    side: int | None = None  # Images of any size are brought to this height and width.


_TFDS_SOURCES = {
    "mnist": _TfdsSource(60_000, 10_000, "storage.googleapis.com", 10),
    "kmnist": _TfdsSource(60_000, 10_000, "codh.rois.ac.jp", 10),
    "cifar10": _TfdsSource(50_000, 10_000, "www.cs.toronto.edu", 10),
    "cifar100": _TfdsSource(50_000, 10_000, "www.cs.toronto.edu", 100),
    "imagenette": _TfdsSource(
        9_469,
        3_925,
        "s3.amazonaws.com",
        10,
        tfds_name="imagenette/160px-v2",
        test_split="validation",
        side=160,
    ),
    "tiny_imagenet": _TfdsSource(
        100_000, 10_000, "cs231n.stanford.edu", 200, test_split="validation"
    ),
    "ag_news_subset": _TfdsSource(120_000, 7_600, "drive.google.com", 4, is_text=True),
}
_SPLITS = ("train", "test")


def known_names():
    """Returns the names that `load_examples` takes, sorted."""
    return sorted([*_TFDS_SOURCES, "digits"])


def load_examples(name, split, data_dir=None, *, download=False):
    """Loads one split of a data set into memory, in its fixed order.

    "digits" comes from scikit-learn and needs no folder: 1437 train and 360 test images of 8 x 8
    (see `trainers.data.digits` for the split). The other sets are read from folders prepared by
    TensorFlow Datasets, in whatever version is there. Texts are title and description, joined by
    one space; the label of cifar100 is the fine one. The test part of imagenette (160px-v2) and of
    tiny_imagenet is their validation split, whose labels are known. Imagenette's images are 160
    pixels on their shorter side: the square in the middle is taken.

    Args:
        name: "mnist", "kmnist", "cifar10", "cifar100", "imagenette", "tiny_imagenet",
            "ag_news_subset" or "digits".
        split: "train" or "test".
        data_dir: folder of TensorFlow Datasets; by default the environment variable TFDS_DATA_DIR,
            and without it `~/tensorflow_datasets`.
        download: whether a set that is missing may be downloaded into `data_dir`.

    Returns:
        `Examples`.

    Raises:
        ValueError: if the name or the split is unknown.
        DatasetNotFoundError: if the set is not in `data_dir` and was not, or could not be,
            downloaded.
        DatasetCorruptError: if its folder cannot be read.
    """
    name = arguments.choice("name", name, known_names())
    split = arguments.choice(
        "split",
        split,
        _SPLITS,
        remedy="For a part of a split, load it and use `Examples.take`.",
    )
    if name == "digits":
        x, y = digits.load(split)
        return Examples(
            name, split, x, y, num_classes=10, is_complete=True, class_names=tuple("0123456789")
        )

    source = _TFDS_SOURCES[name]
    folder = tfds.prepared_folder(
        source.tfds_name or name, data_dir, download_from=source.host if download else None
    )
    kinds = {
        "label": "i",
        **({"title": "O", "description": "O"} if source.is_text else {"image": "u1"}),
    }
    tfds_split = source.test_split if split == "test" else split
    columns, class_names = tfds.read(
        folder, tfds_split, kinds, source.num_classes, side=source.side
    )
    x = _joined_texts(columns) if source.is_text else _unit_images(columns["image"])
    y = columns["label"].astype(np.int32)
    return Examples(
        name,
        split,
        x,
        y,
        num_classes=source.num_classes,
        is_complete=len(y) == getattr(source, split),
        origin=tfds.origin(folder),
        class_names=class_names,
    )


def _unit_images(images):
    """uint8 [N, H, W, C] to float32 in [0, 1]."""
    return np.divide(images, np.float32(255), dtype=np.float32)


def _joined_texts(columns):
    """Titles and descriptions, bytes [N] each, to `str` objects [N]."""
    texts = np.empty(len(columns["title"]), dtype=object)
    for row, (title, description) in enumerate(
        zip(columns["title"], columns["description"], strict=True)
    ):
        texts[row] = (title + b" " + description).decode("utf-8", "replace")
    return texts
