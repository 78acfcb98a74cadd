"""Finds and reads folders prepared by TensorFlow Datasets (TFDS).

TFDS is imported only when a set is read: the import is slow.
"""

import json
import os
import pathlib
import re

import numpy as np

from trainers.data.errors import DatasetCorruptError, DatasetNotFoundError

_VERSION = re.compile(r"\d+\.\d+\.\d+")


def prepared_folder(name, data_dir=None):
    """Returns the folder of the newest prepared version of a set.

    `data_dir` None is TFDS_DATA_DIR, else TFDS's own default.
    """
    root = pathlib.Path(data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets")
    root = root.expanduser()
    versions = [
        path
        for path in (root / name).glob("*")
        if _VERSION.fullmatch(path.name) and (path / "dataset_info.json").is_file()
    ]
    if not versions:
        raise _not_found(name, root)
    return max(versions, key=lambda path: tuple(map(int, path.name.split("."))))


def read(folder, split, kinds, num_classes, side=None):
    """Reads one split whole, in the order of its files.

    `kinds` says what dtypes the features wanted begin with ("i", "u1", "O"), by name; "label" is
    one. For images of any size, `side` is the height and width of the square that is cut out of the
    middle once they are shrunk, should the shorter side be longer.

    Returns a dict from feature to array [N, ...], and the names of the classes, a tuple. Raises a
    DatasetCorruptError if a file is missing, cut short or altered.
    """
    import tensorflow as tf
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder_from_directory(folder)
        # One file after the other: interleaving would make the order depend on their number.
        dataset = builder.as_dataset(
            split=split,
            batch_size=-1 if side is None else None,
            shuffle_files=False,
            read_config=tfds.ReadConfig(interleave_cycle_length=1),
        )
        # TFDS itself compares the number of examples with its information, and raises.
        columns = tfds.as_numpy(dataset)
        if side is not None:
            columns = _squares(columns, side)
        columns = {key: np.asarray(value) for key, value in columns.items()}
        _check_size(builder, split)
        _check_features(builder.info.features, columns, kinds, num_classes)
        class_names = tuple(builder.info.features["label"].names)
    except (MemoryError, tf.errors.ResourceExhaustedError):
        raise
    except Exception as error:  # TFDS, TensorFlow, JSON and the file system each raise their own.
        raise _corrupt(folder, split, _first_line(error)) from None
    return columns, class_names


def count(folder, split):
    """Returns how many examples a split has by its metadata, without reading them."""
    path = pathlib.Path(folder) / "dataset_info.json"
    try:
        splits = {found["name"]: found for found in json.loads(path.read_text("utf-8"))["splits"]}
        return sum(map(int, splits[split]["shardLengths"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _corrupt(folder, split, _first_line(error)) from None


def origin(folder):
    """Returns which other archive than the official one a set was made from, in words; or "".

    The metadata in the folder of its version say so if its builder notes it.
    """
    path = pathlib.Path(folder) / "metadata.json"
    if not path.is_file():
        return ""
    try:
        metadata = json.loads(path.read_text("utf-8"))
        if metadata.get("official", True):
            return ""
        return f"another archive than the official one (MD5 {metadata['archive']['md5']})"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetCorruptError(
            f"Expected {path} to name the archive of the data set, but {_first_line(error)}. "
            "Delete that folder and prepare the data set again."
        ) from None


def _squares(examples, side):
    """Dict of arrays of examples whose images have any size: each image's middle, [side, side]."""
    import tensorflow as tf

    columns = {}
    for example in examples:
        image = example["image"]
        shorter = min(image.shape[:2])
        if shorter != side:
            size = [max(side, round(n * side / shorter)) for n in image.shape[:2]]
            image = tf.image.resize(image, size, antialias=True).numpy()
            image = np.clip(np.rint(image), 0, 255).astype(np.uint8)
        top, left = ((n - side) // 2 for n in image.shape[:2])
        example["image"] = image[top : top + side, left : left + side]
        for name, value in example.items():
            columns.setdefault(name, []).append(value)
    return columns


def _check_features(features, columns, kinds, num_classes):
    """Raises ValueError unless the features are those of the set."""
    for name, kind in kinds.items():
        dtype = columns[name].dtype if name in columns else "none"
        if name not in columns or not (dtype.str[1:].startswith(kind) or dtype.kind == kind):
            raise ValueError(f"feature {name!r} has dtype {dtype}")
        told, found = features[name].shape, columns[name].shape[1:]  # None is any size
        fits = all(t in (None, f) for t, f in zip(told, found, strict=False))
        if kind == "u1" and not (fits and len(told) == len(found)):
            raise ValueError(f"feature {name!r} has shape {columns[name].shape}")
    if features["label"].num_classes != num_classes:
        raise ValueError(f"there are {features['label'].num_classes} labels, not {num_classes}")
    labels = columns["label"]
    if labels.ndim != 1 or len(labels) and not 0 <= labels.min() <= labels.max() < num_classes:
        raise ValueError("there are other labels")


def _check_size(builder, split):
    """Raises ValueError if the files of a split are not as long as when they were written.

    TFDS counts records, but does not see that a file has another one's content.
    """
    info = builder.info.splits[split]
    # A record is 16 bytes longer than its example.
    found = sum(os.path.getsize(path) for path in info.filepaths) - 16 * info.num_examples
    if found != info.num_bytes:
        raise ValueError(f"its examples have {found} bytes instead of {info.num_bytes}")


def _first_line(error):
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__


def _not_found(name, root):
    command = (
        f'python -c "import tensorflow_datasets as tfds; tfds.load({name!r}, '
        f'data_dir={str(root)!r})"'
    )
    if name == "tiny_imagenet":
        command = f"python -m trainers.prepare_tiny_imagenet --data_dir={root}"
    return DatasetNotFoundError(
        f"Expected data set {name!r} as {name}/<version>/dataset_info.json in {root}, but there is "
        "none. With a network, run\n"
        f"  {command}\n"
        "If the set is in another folder, name it with --data_dir or TFDS_DATA_DIR."
    )


def _corrupt(folder, split, reason):
    return DatasetCorruptError(
        f"Expected a readable split {split!r} in {folder}, but {reason}. "
        f"Delete that folder and prepare the data set again."
    )
