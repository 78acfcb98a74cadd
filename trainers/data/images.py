"""Labelled images of one's own: a folder with a folder for each class, or a CSV file."""

import csv
import pathlib
import re

import numpy as np
import tensorflow as tf

from tfdpnorm import files
from tfdpnorm.data.examples import Examples
from tfdpnorm.data.image_folder import IMAGE_ENDINGS
from tfdpnorm.data.public import match_images
from trainers.data.catalogue import files_at, known_names
from trainers.data.sources import load_examples

_COLUMNS = ("image", "label", "split")


def load_labelled(name, split, data_dir=None, *, image_size=None):
    """Loads a split of a known set, of a folder of images, or of a CSV file.

    A folder holds `train/<class>/*.png` and `test/<class>/*.png` (or jpg, bmp, gif). A CSV file has
    the columns image (a path, from the file's own folder), label and split (train or test). Classes
    are numbered in the order of their names, those of both splits together: the names of the
    classes, and how many there are, are public.

    Args:
        name: One of `known_names()`, or a path.
        split: "train" or "test".
        data_dir: For known names, see `load_examples`.
        image_size: Height and width that images of files are brought to, each by itself; None for
            images that are all of one size.

    Returns:
        `Examples`.

    Raises:
        ValueError: for what is neither, and for images that cannot be read or differ in size.
        DatasetNotFoundError: as `load_examples`.
    """
    if name in known_names():
        return load_examples(name, split, data_dir)
    chosen, classes = _listed(files_at(name), split)
    x = _read([file for file, _ in chosen], image_size)
    y = np.array([classes.index(label) for _, label in chosen], np.int32)
    return Examples(
        pathlib.Path(name).stem,
        split,
        x,
        y,
        len(classes),
        is_complete=True,
        class_names=tuple(classes),
    )


def sizes_of(name, split, *, image_size=None):
    """Returns how many images a split of a folder or CSV file has, and of what size.

    Only the first image is read.

    Args:
        name: Path.
        split: "train" or "test".
        image_size: See `load_labelled`.

    Returns:
        Triple (N, (height, width, channels), number of classes).

    Raises:
        ValueError: as `load_labelled`.
    """
    chosen, classes = _listed(files_at(name), split)
    return len(chosen), _image(chosen[0][0], image_size).shape, len(classes)


def _listed(path, split):
    """Pair: pairs (file, class) of a split, and the names of all classes, sorted."""
    listed = _in_folder(path) if path.is_dir() else _in_csv(path)
    classes = sorted({label for _, _, label in listed})
    chosen = [(file, label) for part, file, label in listed if part == split]
    if not chosen or len(classes) < 2:
        raise ValueError(
            f"Expected images of two classes or more in {path}, with some for {split}, got "
            f"{len(chosen)} for {split} and {len(classes)} classes. A folder holds "
            "train/<class>/*.png and test/<class>/*.png."
        )
    return chosen, classes


def _in_folder(folder):
    """List of triples (split, file, class), sorted."""
    return [
        (file.parents[1].name, file, file.parent.name)
        for split in ("train", "test")
        for file in sorted(folder.glob(f"{split}/*/*"))
        if file.suffix.lower() in IMAGE_ENDINGS
    ]


def _in_csv(path):
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            reader = csv.DictReader(lines)
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise ValueError(
                    f"Expected columns {', '.join(_COLUMNS)} in {path}, got none named "
                    f"{', '.join(missing)}."
                )
            rows = [_row(path, reader.line_num, row) for row in reader]
    except UnicodeDecodeError as error:
        raise ValueError(f"Expected a text file in UTF-8, got {path}: {error}.") from None
    unknown = sorted({str(split) for split, _, _ in rows} - {"train", "test"})
    if unknown:
        raise ValueError(f"Expected splits train and test in {path}, got {', '.join(unknown)}.")
    return rows


def _row(path, line, row):
    """Triple (split, file, class) of a row, a dict; None stands for what a short row lacks."""
    missing = [name for name in _COLUMNS if not row[name]]
    if missing:
        raise ValueError(
            f"Expected {', '.join(_COLUMNS)} in line {line} of {path}, got no {', '.join(missing)}."
        )
    return row["split"], path.parent / row["image"], row["label"]


def _read(paths, image_size):
    images = [_image(path, image_size) for path in paths]
    sizes = {image.shape for image in images}
    if len(sizes) > 1:
        raise ValueError(
            f"Expected images of one size, got {len(sizes)} sizes, such as {sorted(sizes)[:2]}. "
            "Give image_size."
        )
    return np.stack(images)


def _image(path, image_size):
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"Expected an image in {path}, got {files.reason(error)}.") from None
    try:
        pixels = tf.io.decode_image(content, 3, expand_animations=False).numpy()
    except tf.errors.OpError as error:
        why = re.sub(r"\{\{.*?\}\} *|\.? *\[Op:.*", "", error.message)  # where in TensorFlow
        raise ValueError(f"Expected an image in {path}, got: {why}.") from None
    image = np.divide(pixels, np.float32(255), dtype=np.float32)
    if image_size is None:
        return image
    return match_images(image[np.newaxis], (image_size, image_size, 3))[0]
