"""Labelled images of one's own: a folder with a folder for each class, or a CSV file."""

import pathlib
import re
import warnings
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfdpnorm import files
from tfdpnorm.data.examples import Examples
from tfdpnorm.data.image_folder import IMAGE_ENDINGS, rows_of_table, subfolder_names
from tfdpnorm.data.public import match_images, unlike_public
from trainers.data.catalogue import files_at, known_names
from trainers.data.sources import load_examples

_COLUMNS = ("image", "label", "split")
_NAMED = 10  # of broken images


def load_labelled(name, split, data_dir=None, *, image_size=None, person_feature=None):
    """Loads a split, "train" or "test", of a known set, of a folder of images, or of a CSV file.

    A folder holds `train/<class>/*.png` and `test/<class>/*.png` (or jpg, bmp, gif). A CSV file has
    the columns image (a path, from the file's own folder), label and split (train or test). Classes
    are numbered in the order of their names, those of both splits together: the names of the
    classes, and how many there are, are public.

    Whose an image is, is said by a folder below that of the class, `train/<class>/<person>/*.png`,
    or by a column of the CSV file. Two images are of one person if the names are equal to the
    letter, whatever the class. Persons who are in both splits are rejected.

    `image_size` is the height and width that images of files are brought to, each by itself; None
    for images that are all of one size. `person_feature` is "subfolder", or the name of the column;
    None where each image is of another person. It has no effect for known names.
    """
    if name in known_names():
        return load_examples(name, split, data_dir)
    listed, chosen, classes, persons = _chosen(files_at(name), split, person_feature)
    x = _read(chosen, listed, image_size)
    y = np.array([classes.index(image.label) for image in chosen], np.int32)
    return Examples(
        pathlib.Path(name).stem,
        split,
        x,
        y,
        len(classes),
        is_complete=True,
        class_names=tuple(classes),
        persons=persons,
    )


def sizes_of(name, split, *, image_size=None, person_feature=None):
    """Returns how many images a split of a folder or CSV file has, and of what size.

    Only the first image is read; arguments as for `load_labelled`. Returns (N, (height, width,
    channels), number of classes, persons [N] or None).
    """
    listed, chosen, classes, persons = _chosen(files_at(name), split, person_feature)
    return len(chosen), _read(chosen[:1], listed, image_size).shape[1:], len(classes), persons


def warn_of_trained_on(tested, trained):
    """Warns of images to test on, `Examples`, that are also trained on, pixel by pixel."""
    count = np.count_nonzero(~unlike_public(tested.x, trained.x))
    if count:
        warnings.warn(
            f"{count} of {len(tested.x)} test images equal training images: test accuracies will "
            "be too high. Remove these images from one of the two.",
            stacklevel=2,
        )


class _Listed(NamedTuple):
    """An image; its person is None where that is not asked for."""

    split: str
    file: pathlib.Path
    label: str
    person: str | None


def _chosen(path, split, person_feature):
    """All images, those of a split, the names of all classes, sorted, and whose the images are."""
    listed = (_in_folder if path.is_dir() else _in_csv)(path, person_feature)
    classes = sorted({image.label for image in listed})
    chosen = [image for image in listed if image.split == split]
    if not chosen or len(classes) < 2:
        raise ValueError(
            f"Expected images of two classes or more in {path}, with some for {split}, got "
            f"{len(chosen)} for {split} and {len(classes)} classes. A folder holds "
            "train/<class>/*.png and test/<class>/*.png."
        )
    if person_feature is None:
        return listed, chosen, classes, None
    train, test = ({i.person for i in listed if i.split == split} for split in ("train", "test"))
    if train & test:  # whose names are not told
        raise ValueError(
            f"Expected each person in train or in test alone, got {len(train & test)} in both. "
            "Move all images of a person to one of them: no epsilon covers the test images."
        )
    persons = np.unique([image.person for image in chosen], return_inverse=True)[1]
    return listed, chosen, classes, persons


def _in_folder(folder, person_feature):
    """List of `_Listed`, sorted."""
    if person_feature not in (None, "subfolder"):
        raise ValueError(
            f"Expected person_feature='subfolder' for a folder of images, got {person_feature!r}. "
            "Name a column for a CSV file."
        )
    below_class = ["*"] if person_feature is None else ["*", "*/**/*"]
    files = [
        file
        for split in ("train", "test")
        for file in sorted(f for below in below_class for f in folder.glob(f"{split}/*/{below}"))
        if file.suffix.lower() in IMAGE_ENDINGS
    ]
    _warn_of_ignored(folder, files)
    below = [file.relative_to(folder).parts[:-1] for file in files]
    persons = [None] * len(files)
    if person_feature is not None:
        persons = subfolder_names([folders[2:] for folders in below])
    return [
        _Listed(split, file, label, person)
        for file, (split, label, *_), person in zip(files, below, persons, strict=True)
    ]


def _warn_of_ignored(folder, images):
    """Warns of what is not used; files by their names alone, since folders may name persons."""
    there = [path for split in ("train", "test") for path in (folder / split).rglob("*")]
    used = {*images, *(above for image in images for above in image.parents)}
    unused = [path.relative_to(folder) for path in sorted(there) if path not in used]
    files = [path.name for path in unused if (folder / path).is_file()]
    empty = [path for path in unused if len(path.parts) == 2 and (folder / path).is_dir()]
    ignored = [
        f"{len(found)} {kind}, such as {found[0]}"
        for kind, found in (
            ("file(s) that are no images in the folder of a class", files),
            ("folder(s) of classes without images", empty),
        )
        if found
    ]
    if ignored:
        warnings.warn(f"Ignored in {folder}: {'; '.join(ignored)}.", stacklevel=2)


def _in_csv(path, person_feature):
    columns = (*_COLUMNS, *([] if person_feature is None else [person_feature]))
    listed = [
        _Listed(
            row["split"],
            path.parent / row["image"],
            row["label"],
            person_feature and row[person_feature],
        )
        for row in rows_of_table(path, columns)
    ]
    unknown = sorted({image.split for image in listed} - {"train", "test"})
    if unknown:
        raise ValueError(f"Expected splits train and test in {path}, got {', '.join(unknown)}.")
    return listed


def _read(chosen, listed, image_size):
    """Array of the chosen images; where one is broken, the error names all that are listed."""
    try:
        images = [np.divide(_pixels(i.file), np.float32(255), dtype=np.float32) for i in chosen]
    except _BrokenImageError:
        raise ValueError(_all_broken(listed)) from None
    if image_size is not None:
        shape = (image_size, image_size, 3)
        images = [match_images(image[np.newaxis], shape)[0] for image in images]
    sizes = {image.shape for image in images}
    if len(sizes) > 1:
        raise ValueError(
            f"Expected images of one size, got {len(sizes)} sizes, such as {sorted(sizes)[:2]}. "
            "Give image_size."
        )
    return np.stack(images)


class _BrokenImageError(Exception):
    """A file that cannot be read as an image; the text says which, and why."""


def _all_broken(listed):
    broken = []
    for image in listed:
        try:
            _pixels(image.file)
        except _BrokenImageError as error:
            broken.append(str(error))
    more = f"; and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
    return (
        f"Expected images in all {len(listed)} files, got {len(broken)} that cannot be read: "
        f"{'; '.join(broken[:_NAMED])}{more}. Repair or remove them."
    )


def _pixels(path):
    try:
        return tf.io.decode_image(path.read_bytes(), 3, expand_animations=False).numpy()
    except OSError as error:
        raise _BrokenImageError(f"{path} ({files.reason(error)})") from None
    except tf.errors.OpError as error:
        why = re.sub(r"\{\{.*?\}\} *|\.? *\[Op:.*", "", error.message)  # where in TensorFlow
        raise _BrokenImageError(f"{path} ({why.rstrip('.')})") from None
