"""Sources: private examples that are read when they are drawn."""

from __future__ import annotations

import collections.abc
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


# They have lengths and items too, and are read as arrays.
_BUILT_IN = (str, bytes, bytearray, list, tuple, range, collections.abc.Mapping)


def is_source(value):
    """Whether examples can be read from an object by their numbers, one by one.

    A source has `__len__`, and `__getitem__` or `__getitems__`. Arrays, tensors, and Python's own
    sequences are not sources.
    """
    if isinstance(value, (*_BUILT_IN, tf.data.Dataset)) or hasattr(value, "__array__"):
        return False
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return False
    has_items = hasattr(value, "__getitem__") or hasattr(value, "__getitems__")
    return has_items and hasattr(value, "__len__") and not isinstance(value, type)


def is_unread(value):
    """Whether this is an array [N, ...] in a file: a `np.memmap`, or one in chunks as of HDF5."""
    if isinstance(value, np.ndarray):
        return isinstance(value, np.memmap)
    return all(hasattr(value, name) for name in ("chunks", "shape", "dtype", "__getitem__"))


def is_of_known_library(array):
    """Whether reading an array in a file runs no code of the user's."""
    return type(array).__module__.partition(".")[0] in ("numpy", "h5py", "zarr")


class MappedSource:
    """A source whose examples are made of another's by TensorFlow, by several threads.

    What costs time belongs here: decoding, resizing, scaling. `__getitem__` of a source runs in
    Python, which does one thing at a time; `function` is traced, and does not wait for Python.

        source = tfds.data_source("mnist", split="train")
        source = MappedSource(source, lambda e: (tf.cast(e["image"], tf.float32) / 255, e["label"]))

    Privacy: `function` is called on one example at a time. It must keep nothing of the others.

    Args:
        source: A source (see `tfdpnorm.data.poisson_batches`), mapped or not. Its examples may have
            any structure, and their arrays may differ in size, but not in rank or type.
        function: As `tf.data.Dataset.map` takes it: an example that is a tuple becomes several
            arguments. It returns (x,), (x, y) or (x, y, sample_weight) of one shape; set sizes that
            TensorFlow cannot know by `tf.ensure_shape`.

    Attributes:
        source: What was given.
        function: What was given.
        reads_own_code: Whether code that this library does not know reads or maps examples.

    Raises:
        TypeError: if `source` is not a source, or `function` not a function.
    """

    reads_own_code = True

    def __init__(self, source: Any, function: Callable) -> None:
        if not is_source(source):
            raise TypeError(
                "Expected source to have __len__ and __getitem__, got "
                f"{type(source).__name__}. Arrays need no source: map them before training."
            )
        if not callable(function):
            raise TypeError(f"Expected a function of an example, got {type(function).__name__}.")
        self.source, self.function = source, function

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        example = read_one(self.source, index)
        arguments = example if type(example) is tuple else (example,)
        made = self.function(*tf.nest.map_structure(tf.convert_to_tensor, arguments))
        return tf.nest.map_structure(lambda t: t.numpy() if tf.is_tensor(t) else t, made)

    def unmapped(self) -> tuple[Any, list[Callable]]:
        """Returns the innermost source, and the list of functions that its examples go through."""
        source, functions = self, []
        while isinstance(source, MappedSource):
            functions.insert(0, source.function)
            source = source.source
        return source, functions


def read_one(source, index):
    """Returns the example with a number."""
    if hasattr(source, "__getitem__"):
        return source[index]
    return source.__getitems__([index])[0]
