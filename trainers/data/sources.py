"""Loads the data sets of the experiments, by name."""

import numpy as np

from tfdpnorm import arguments
from tfdpnorm.data.examples import Examples
from trainers.data import digits, tfds
from trainers.data.catalogue import SOURCES, SPLITS, known_names, official_size, prepared


def load_examples(name, split, data_dir=None):
    """Loads a split, "train" or "test", of a known set whole, in its fixed order: `Examples`.

    "digits" comes from scikit-learn and needs no folder: 1437 train and 360 test images of 8 x 8
    (see `trainers.data.digits` for the split). The other sets are read from folders prepared by
    TensorFlow Datasets, in whatever version is there. Texts are title and description, joined by
    one space; the label of cifar100 is the fine one. The test part of imagenette (160px-v2) and of
    tiny_imagenet is their validation split, whose labels are known. Imagenette's images are 160
    pixels on their shorter side: the square in the middle is taken.

    Raises:
        DatasetNotFoundError: if the set is not in `data_dir`, by default TFDS_DATA_DIR or
            `~/tensorflow_datasets`.
        DatasetCorruptError: if its folder cannot be read.
    """
    name = arguments.choice("name", name, known_names())
    split = arguments.choice(
        "split",
        split,
        SPLITS,
        remedy="For a part of a split, load it and use `Examples.take`.",
    )
    if name == "digits":
        x, y = digits.load(split)
        return Examples(
            name, split, x, y, num_classes=10, is_complete=True, class_names=tuple("0123456789")
        )

    source = SOURCES[name]
    folder, split_name = prepared(name, split, data_dir)
    kinds = {
        "label": "i",
        **({"title": "O", "description": "O"} if source.is_text else {"image": "u1"}),
    }
    # Of imagenette alone the images differ in size.
    side = source.shape[0] if name == "imagenette" else None
    columns, class_names = tfds.read(folder, split_name, kinds, source.num_classes, side=side)
    if source.is_text:
        pairs = zip(columns["title"], columns["description"], strict=True)
        texts = [(title + b" " + text).decode("utf-8", "replace") for title, text in pairs]
        x = np.array(texts, dtype=object)
    else:
        x = np.divide(columns["image"], np.float32(255), dtype=np.float32)
    y = columns["label"].astype(np.int32)
    return Examples(
        name,
        split,
        x,
        y,
        num_classes=source.num_classes,
        is_complete=len(y) == official_size(name, split),
        origin=tfds.origin(folder),
        class_names=class_names,
    )
