"""A folder of images as a source: a folder for each class, as Keras reads them."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import tensorflow as tf

from tfdpnorm import arguments
from tfdpnorm.data.sources import MappedSource

IMAGE_ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")


def image_folder(
    path: str | os.PathLike, image_size: tuple[int, int], *, channels: int = 3
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

    Returns:
        `ImageFolder`, for `poisson_batches` or `fit`; its `persons` for images of several persons.

    Raises:
        TypeError: if sizes are no integers.
        ValueError: without images, or for other channels.
    """
    return ImageFolder(path, image_size, channels=channels)


class ImageFolder(MappedSource):
    """Images in a folder; see `image_folder`.

    `class_names` is a tuple, and `labels` are the class numbers, int32 [N].
    """

    reads_own_code = False

    def __init__(self, path, image_size, *, channels=3):
        size = tuple(arguments.integer("each of image_size", s, at_least=1) for s in image_size)
        arguments.choice("channels", channels, (1, 3, 4))
        if len(size) != 2:
            raise ValueError(f"Expected image_size (height, width), got {image_size!r}.")
        files = _Files(pathlib.Path(path))
        self.class_names, self.labels = files.class_names, files.labels

        def decoded(file, label):
            image = tf.io.decode_image(tf.io.read_file(file), channels, expand_animations=False)
            image = tf.image.resize(tf.ensure_shape(image, [None, None, channels]), size)
            return tf.ensure_shape(image, [*size, channels]), label

        self._names = files.names
        super().__init__(files, decoded)

    def persons(self):
        """The person of each image, by the folder below that of its class.

        Two images are of one person if these folders have the same name to the letter, in one class
        or in two. Folders below them do not matter.

            source = image_folder("scans", (128, 128))  # scans/<class>/<person>/*.png
            private.fit(source, person=source.persons())

        Returns:
            Array of texts [N], as `fit` and `poisson_batches` take them.

        Raises:
            ValueError: for images in the folder of a class itself; it gives their number.
        """
        below = [os.fsdecode(name).split(os.sep)[1:-1] for name in self._names]
        return subfolder_names(below)


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


class _Files:
    """Pairs (path of an image, class number), with a name and a number in memory for each."""

    def __init__(self, path):
        if not path.is_dir():
            raise ValueError(f"Expected a folder with a folder for each class, got {path}.")
        self._folder = os.path.abspath(path)
        self.class_names = tuple(sorted(p.name for p in path.iterdir() if p.is_dir()))
        names, labels = [], []
        for label, name in enumerate(self.class_names):
            found = _images(os.path.join(self._folder, name))
            names += [os.fsencode(os.path.relpath(file, self._folder)) for file in found]
            labels += [label] * len(found)
        if not names:
            raise ValueError(
                f"There are no images ({', '.join(IMAGE_ENDINGS)}) in the folders of {path}. Give "
                "each class a folder with its images."
            )
        # An array of bytes takes less memory than objects do.
        self.names, self.labels = np.array(names), np.array(labels, np.int32)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return os.path.join(os.fsencode(self._folder), self.names[index]), self.labels[index]


def _images(folder):
    """The images under a folder, in Keras' order."""
    found = []
    for root, _, files in sorted(os.walk(folder)):
        found += [os.path.join(root, f) for f in sorted(files) if f.lower().endswith(IMAGE_ENDINGS)]
    return found
