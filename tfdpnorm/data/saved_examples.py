"""Examples of a `tf.data.Dataset` in files, where each can be read by its number."""

from __future__ import annotations

import contextlib
import json
import pathlib
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from tfdpnorm import files

if TYPE_CHECKING:
    import os
    from typing import Any

_NAME = "examples.json"


def save_examples(dataset: tf.data.Dataset, folder: str | os.PathLike) -> Any:
    """Writes the examples of a dataset to files, once, and returns them as arrays in these files.

    Batches cannot be sampled from a `tf.data.Dataset`, which is read in its order. They can from
    these:

        x, y = save_examples(dataset.unbatch(), "folder")
        batches = poisson_batches(x, y, expected_batch_size=256)

    `load_examples("folder")` opens them again, in any process. It takes little memory, and as much
    of the disk as the numbers do. The files hold the examples as they are: protect and delete them
    as you do those. Leave out `shuffle` and `repeat`, and augmentations, which would be drawn once
    and for all.

    Args:
        dataset: `tf.data.Dataset` of single examples: any structure of numbers of one shape.
        folder: Folder to make; it must be empty or absent.

    Returns:
        The structure of the dataset, with a `np.memmap` [N, ...] for each tensor.

    Raises:
        TypeError: for values other than a `tf.data.Dataset`, and for texts.
        ValueError: for shapes that are not fixed, an endless dataset, or one without examples.
        FileExistsError: if the folder holds something.
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(f"Expected a tf.data.Dataset, got {type(dataset).__name__}.")
    specs = tf.nest.flatten(dataset.element_spec)
    for spec in specs:
        if not isinstance(spec, tf.TensorSpec) or spec.dtype == tf.string:
            raise TypeError(f"Expected tensors of numbers, got {spec}. Convert texts to ids first.")
        if not spec.shape.is_fully_defined():
            raise ValueError(
                f"Expected single examples of one shape, got {spec.shape}. Pass dataset.unbatch(), "
                "and set unknown sizes with tf.ensure_shape in a map."
            )
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError("The dataset is endless. Leave out repeat().")
    folder = pathlib.Path(folder)
    files.make_folder(folder, "the folder of the examples")
    if any(folder.iterdir()):
        raise FileExistsError(f"Expected an empty folder, got {folder}. Name another one.")
    paths, count = [folder / f"{at}.bin" for at in range(len(specs))], 0
    with contextlib.ExitStack() as scratch:  # whose files go if the dataset fails halfway
        partials = [scratch.enter_context(files.scratch_file(path)) for path in paths]
        with contextlib.ExitStack() as opened:
            written = [opened.enter_context(partial.open("wb")) for partial in partials]
            for example in dataset.prefetch(tf.data.AUTOTUNE):
                for file, part in zip(written, tf.nest.flatten(example), strict=True):
                    file.write(part.numpy().tobytes())
                count += 1
        if not count:
            raise ValueError("The dataset has no examples. Pass at least one.")
        for partial, path in zip(partials, paths, strict=True):
            files.publish(partial, path)
    parts = [{"shape": [count, *spec.shape], "dtype": spec.dtype.name} for spec in specs]
    numbers = tf.nest.pack_sequence_as(dataset.element_spec, list(range(len(specs))))
    text = json.dumps({"structure": numbers, "parts": parts}, indent=1)
    files.write_whole(folder / _NAME, text + "\n")
    return load_examples(folder)


def load_examples(folder: str | os.PathLike) -> Any:
    """Opens the files that `save_examples` wrote, in any process.

    Args:
        folder: That of `save_examples`.

    Returns:
        The structure of the dataset, with a `np.memmap` [N, ...] for each tensor.

    Raises:
        FileNotFoundError: if `save_examples` did not write the folder, or did not finish.
    """
    folder = pathlib.Path(folder)
    try:
        saved = json.loads((folder / _NAME).read_text("utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"Expected the folder of save_examples, got {folder} without {_NAME}. Save the "
            "examples again, to another folder."
        ) from None
    mapped = [
        np.memmap(
            folder / f"{at}.bin",
            tf.as_dtype(part["dtype"]).as_numpy_dtype,
            "r",
            shape=(*part["shape"],),
        )
        for at, part in enumerate(saved["parts"])
    ]
    return _structured(saved["structure"], mapped)


def _structured(numbers, parts):
    """The parts in place of their numbers. JSON has lists for tuples."""
    if isinstance(numbers, dict):
        return {name: _structured(each, parts) for name, each in numbers.items()}
    if isinstance(numbers, list):
        return tuple(_structured(each, parts) for each in numbers)
    return parts[numbers]
