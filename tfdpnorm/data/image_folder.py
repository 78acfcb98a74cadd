"""A folder of images as a source: a folder for each class, as Keras reads them."""

from __future__ import annotations

import csv
import hashlib
import os
import pathlib
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from tfdpnorm import arguments
from tfdpnorm.data.sources import MappedSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

IMAGE_ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")


def image_folder(
    path: str | os.PathLike,
    image_size: tuple[int, int],
    *,
    channels: int = 3,
    table: str | os.PathLike | None = None,
) -> ImageFolder:
    """Returns a source of the images in a folder that holds a folder for each class.

    Images and labels are those of `keras.utils.image_dataset_from_directory(path,
    image_size=image_size, shuffle=False)`, in that order: float32 [height, width, channels] in
    [0, 255], each resized by itself, bilinearly; class numbers in the order of the names of the
    folders, int32. Files are decoded when they are drawn. Names and number of the classes are
    public.

    Args:
        path: Folder.
        image_size: Pair (height, width).
        channels: 1, 3 or 4.
        table: Path of a CSV file that says what the folders would: in UTF-8, with the columns
            "image", a path from the folder, "label", the name of a class, and, for `persons`,
            "person". Images are in its order, classes in that of their names.

    Returns:
        `ImageFolder`, for `poisson_batches`, `fit` or `image_features`; its `persons` for images of
        several persons.

    Raises:
        TypeError: if sizes are no integers.
        ValueError: without images, for other channels, or a table without these columns.

    Example::

        source = image_folder("scans", (128, 128))  # scans/<class>/<person>/*.png
        train, test = source.split(source.persons(), 0.2)
        private.fit(train, person=train.persons())
    """
    size = tuple(arguments.integer("each of image_size", s, at_least=1) for s in image_size)
    arguments.choice("channels", channels, (1, 3, 4))
    if len(size) != 2:
        raise ValueError(f"Expected image_size (height, width), got {image_size!r}.")
    path = pathlib.Path(path)
    files = _in_folders(path) if table is None else _in_table(path, pathlib.Path(table))
    return ImageFolder(files, size, channels)


class ImageFolder(MappedSource):
    """Images in a folder; see `image_folder`.

    `class_names` is a tuple, and `labels` are the class numbers, int32 [N].
    """

    reads_own_code = False

    def __init__(self, files, size, channels):
        self.class_names, self.labels = files.class_names, files.labels

        def decoded(file, label):
            image = tf.io.decode_image(tf.io.read_file(file), channels, expand_animations=False)
            image = tf.image.resize(tf.ensure_shape(image, [None, None, channels]), size)
            return tf.ensure_shape(image, [*size, channels]), label

        self._form = size, channels
        super().__init__(files, decoded)

    def persons(self) -> np.ndarray:
        """The person of each image, by the folder below that of its class, or by the table.

        Two images are of one person if these names are equal to the letter, in one class or in two.
        Folders below them do not matter.

        Returns:
            Array of texts [N], as `fit` and `poisson_batches` take them.

        Raises:
            ValueError: for images in the folder of a class itself; it gives their number. And for a
                table without a person.
        """
        if self.source.persons is not None:
            return self.source.persons
        below = [os.fsdecode(name).split(os.sep)[1:-1] for name in self.source.names]
        return subfolder_names(below)

    def split(
        self, persons: ArrayLike, fraction: float | Sequence, seed: int = 0
    ) -> tuple[ImageFolder, ImageFolder]:
        """Holds out persons with all of their images.

        Privacy: on which side a person is depends on their name and on the seed alone. A random
        choice of so many of those who are there would move others when one is added.

        Args:
            persons: Whose each image is, [N], such as those of `persons`.
            fraction: Of the persons, about so many are held out: 0 < fraction < 1. Or a list of
                those who are.
            seed: Another one holds out others.

        Returns:
            The pair of the images that are left and of those held out, each an `ImageFolder`.

        Raises:
            ValueError: for a length other than that of the images, or if one side has no image.
        """
        persons = np.asarray(persons)
        if persons.shape != (len(self),):
            raise ValueError(
                f"Expected persons to be [{len(self)}], one for each image, got "
                f"{list(persons.shape)}."
            )
        if np.ndim(fraction):
            is_out = np.isin(persons, np.asarray(fraction))
        else:
            arguments.within("fraction", fraction, 0.0, 1.0)
            names, of_image = np.unique(persons, return_inverse=True)
            held_out = [_chance(name, seed) < fraction for name in names.tolist()]
            is_out = np.array(held_out)[of_image]
        if is_out.all() or not is_out.any():
            raise ValueError(
                f"Expected persons on both sides, got {'all' if is_out.all() else 'none'} held out."
                " Give another fraction or seed."
            )
        return tuple(ImageFolder(self.source.take(side), *self._form) for side in (~is_out, is_out))


def _chance(name, seed):
    """A number in [0, 1) that the name of a person and a seed decide."""
    said = os.fsencode(name) if isinstance(name, str) else str(name).encode()
    digest = hashlib.sha256(f"{seed}:".encode() + said).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def subfolder_names(below):
    """Returns the first of the folders that each image lies in below that of its class.

    `below` is a sequence of names of folders for each image. Raises ValueError with the number of
    images for which it is empty.
    """
    of_nobody = sum(not folders for folders in below)
    if of_nobody:
        raise ValueError(
            "Expected each image in a folder of a person below that of its class, "
            f"<class>/<person>/*.png, got {of_nobody} images in the folder of a class itself. Move "
            "each into the folder of its person."
        )
    return np.array([folders[0] for folders in below])


def rows_of_table(path, columns):
    """Returns a list of dicts with the named columns of a CSV file in UTF-8.

    Raises ValueError for columns or fields that are missing.
    """
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            reader = csv.DictReader(lines)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise ValueError(
                    f"The file {path} has no column named {', '.join(missing)}. It needs the "
                    f"columns {', '.join(columns)}."
                )
            rows = []
            for row in reader:
                rows.append(row)
                missing = [name for name in columns if not row[name]]  # None in a short row
                if missing:
                    raise ValueError(
                        f"Line {reader.line_num} of {path} has no {', '.join(missing)}. Each line "
                        f"needs {', '.join(columns)}."
                    )
    except UnicodeDecodeError as error:
        raise ValueError(f"Expected a text file in UTF-8, got {path}: {error}.") from None
    return rows


class _Files:
    """Pairs (path of an image, class number), with a name and a number in memory for each."""

    def __init__(self, folder, names, labels, class_names, persons=None):
        # An array of bytes takes less memory than objects do.
        self.names, self.labels = np.array(names), np.array(labels, np.int32)
        self.class_names, self.persons = class_names, persons
        self._folder = folder

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return os.path.join(os.fsencode(self._folder), self.names[index]), self.labels[index]

    def take(self, which):
        persons = None if self.persons is None else self.persons[which]
        return _Files(
            self._folder, self.names[which], self.labels[which], self.class_names, persons
        )


def _in_folders(path):
    if not path.is_dir():
        raise ValueError(f"Expected a folder with a folder for each class, got {path}.")
    folder = os.path.abspath(path)
    class_names = tuple(sorted(p.name for p in path.iterdir() if p.is_dir()))
    names, labels = [], []
    for label, name in enumerate(class_names):
        # In Keras' order.
        found = []
        for root, _, files in sorted(os.walk(os.path.join(folder, name))):
            found += [
                os.path.join(root, f) for f in sorted(files) if f.lower().endswith(IMAGE_ENDINGS)
            ]
        names += [os.fsencode(os.path.relpath(file, folder)) for file in found]
        labels += [label] * len(found)
    if not names:
        raise ValueError(
            f"There are no images ({', '.join(IMAGE_ENDINGS)}) in the folders of {path}. Give "
            "each class a folder with its images."
        )
    return _Files(folder, names, labels, class_names)


def _in_table(path, table):
    rows = rows_of_table(table, ("image", "label"))
    if not rows:
        raise ValueError(f"The table {table} has no images. Give each a line.")
    names = [os.fsencode(row["image"]) for row in rows]
    class_names, labels = np.unique([row["label"] for row in rows], return_inverse=True)
    # A person that is missing is rejected where persons are read.
    persons = np.array([row["person"] or "" for row in rows]) if "person" in rows[0] else None
    return _Files(os.path.abspath(path), names, labels, tuple(class_names.tolist()), persons)
