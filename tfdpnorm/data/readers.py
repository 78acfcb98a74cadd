"""Readers: examples of a source, or rows of arrays in files, as NumPy arrays.

A reader has a length N, a `template`, the structure (x, y, sample_weight) with numbers of leaves in
it, and `leaves`, the `UnreadArray` of each leaf. `fill` reads examples.
"""

import contextlib
import threading

import numpy as np
import tensorflow as tf

from tfdpnorm.data import arrays
from tfdpnorm.data.in_memory import checked_weights
from tfdpnorm.data.sources import is_source, is_unread, read_one

# The beginning of errors of reading. They hold no index and no value of an example.
CANNOT_READ = "Expected every example of the source"
_REMEDY = (
    "The message leaves out which example it was, since batches are secret. To find it, read all "
    "examples outside of training: for i in range(len(source)): source[i]."
)


class UnreadArray:
    """Stands for an array that is not in memory: its shape (N, ...), and its dtype.

    The dtype is NumPy's, `object` for texts.
    """

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)

    @property
    def ndim(self):
        """Number of axes, N among them."""
        return len(self.shape)

    def __len__(self):
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            f"Expected an array in memory, got {self!r}, whose rows are read when they are drawn. "
            "Read the rows that you need from the source."
        )

    def __repr__(self):
        return f"UnreadArray(shape={self.shape}, dtype={self.dtype})"


class Columns:
    """Rows of arrays [N, ...], some of them in files; checked as `poisson_batches` says.

    Weights are checked if they are in memory.
    """

    def __init__(self, x, y, sample_weight):
        self._columns = []

        def column(leaf, name):
            if is_unread(leaf):
                check_example(np.dtype(leaf.dtype), leaf.shape, name)
                return leaf
            check = arrays.text_or_numeric_array if name.startswith("x") else arrays.numeric_array
            return np.array(check(leaf, name))  # the caller may write to it later

        def number(leaf, name):
            self._columns.append(column(leaf, name))
            return len(self._columns) - 1

        x = arrays.map_leaves(number, x, "x")
        y = None if y is None else arrays.map_leaves(number, y, "y")
        names = [f"array {at} of x and y" for at in range(len(self._columns))]
        self._count = arrays.common_length([*zip(names, map(len, self._columns), strict=True)])
        if sample_weight is not None:
            if not is_unread(sample_weight):
                sample_weight = checked_weights(sample_weight, self._count)
            sample_weight = number(sample_weight, "sample_weight")
            if len(self._columns[-1]) != self._count:
                raise ValueError(
                    f"Expected sample_weight of shape [{self._count}, ...], got "
                    f"{list(self._columns[-1].shape)}."
                )
        self.template = (x, y, sample_weight)
        self.leaves = [UnreadArray(c.shape, _native(c.dtype)) for c in self._columns]

    def __len__(self):
        return self._count

    def fill(self, targets, places, rows):
        """Writes examples into rows of `targets`, an array [slots, ...] for each leaf.

        The examples with the numbers `rows`, ascending, int64 [n], go to the slots `places`, int
        [n]. Raises ValueError if they cannot be read, without any number of an example.
        """
        for target, column in zip(targets, self._columns, strict=True):
            with _without_what_was_read():
                values = column[rows]
                target[places] = arrays.texts_as_bytes(values) if target.dtype == object else values


class Items:
    """Examples of a source, one by one; of any structure, or of (x, y, sample_weight).

    A source has `__len__`, and `__getitem__` or `__getitems__`. Raises TypeError or ValueError if
    the first example is not as it should be.
    """

    def __init__(self, source, may_be_any=False):
        self._source, self._lock = source, threading.Lock()
        self._count = len(source)
        name = type(source).__name__
        if self._count < 1:
            raise ValueError(f"Expected at least 1 example, got a {name} without any.")
        first = read_one(source, 0)
        self.leaves = []

        def number(leaf, leaf_name):
            array = _as_array(leaf)
            check_example(array.dtype, (self._count, *array.shape), leaf_name)
            self.leaves.append(UnreadArray((self._count, *array.shape), _native(array.dtype)))
            return len(self.leaves) - 1

        if may_be_any:
            self.template = arrays.map_leaves(number, first, "x")
        else:
            parts = parts_of_example(first, name)
            self.template = tuple(
                None if part is None else arrays.map_leaves(number, part, part_name)
                for part, part_name in zip(parts, ("x", "y", "sample_weight"), strict=True)
            )
        self._parts = None if may_be_any else len(first) if _is_several(first) else 1

    def __len__(self):
        return self._count

    def read(self, rows, *, same_shapes):
        """Reads the examples with the numbers `rows`, ascending, int64 [n].

        Returns a column for each leaf: a list of n arrays, or an array [n] of numbers. Raises
        ValueError, which says nothing of the example, if one cannot be read, is of another
        structure than the first one, or has arrays of another type, rank or (with `same_shapes`)
        shape.
        """
        rows = rows.tolist()
        with self._lock, _without_what_was_read():  # Sources need not support several threads.
            if hasattr(self._source, "__getitems__"):
                examples = self._source.__getitems__(rows)
            else:
                examples = [self._source[row] for row in rows]
            if len(examples) != len(rows):
                raise LookupError("__getitems__ gives another number of examples")
            template = self.template
            if self._parts is not None:
                examples = [e if _is_several(e) else (e,) for e in examples]
                examples, template = [tuple(e) for e in examples], template[: self._parts]
            columns = _columns(template, examples)
            return [
                _checked(column, leaf, same_shapes)
                for column, leaf in zip(columns, self.leaves, strict=True)
            ]

    def fill(self, targets, places, rows):
        """As `Columns.fill`."""
        for target, column in zip(targets, self.read(rows, same_shapes=True), strict=True):
            if isinstance(column, np.ndarray):
                target[places] = column
            else:
                for place, leaf in zip(places.tolist(), column, strict=True):
                    target[place] = leaf


def _columns(template, values):
    """Returns the columns of the leaves of examples, a list of lists, in the order of a template.

    It takes examples apart all at once: one by one takes several times as long. Raises
    `_OtherStructure` if one is not like the template.
    """
    if template is None:
        if any(value is not None for value in values):
            raise _OtherStructure
        return []
    if isinstance(template, dict):
        keys = template.keys()
        if not all(isinstance(value, dict) and value.keys() == keys for value in values):
            raise _OtherStructure
        parts = [(part, [value[key] for value in values]) for key, part in template.items()]
    elif isinstance(template, tuple):
        length = len(template)
        if not all(isinstance(value, tuple) and len(value) == length for value in values):
            raise _OtherStructure
        parts = [(part, [value[at] for value in values]) for at, part in enumerate(template)]
    else:
        return [values]
    return [column for part, of_values in parts for column in _columns(part, of_values)]


def _checked(column, of_first, same_shapes):
    """Returns a column as numbers or arrays of the type, the rank and, if asked for, the shape."""
    shape, dtype = of_first.shape[1:], of_first.dtype
    if not shape and dtype.kind != "O":
        numbers = np.array(column, dtype=None if column else dtype)
        if numbers.ndim != 1 or _native(numbers.dtype) != dtype:
            raise _OtherStructure
        return numbers.astype(dtype, copy=False)
    found = [leaf if type(leaf) is np.ndarray else _as_array(leaf) for leaf in column]
    dtypes = {leaf.dtype for leaf in found}
    if not all(_native(of_leaf) == dtype for of_leaf in dtypes):
        raise _OtherStructure
    shapes = {leaf.shape for leaf in found}
    if not all(len(of_leaf) == len(shape) for of_leaf in shapes):
        raise _OtherStructure
    if same_shapes and not shapes <= {shape}:
        raise _OtherShape
    if dtype.kind == "O":
        found = [arrays.texts_as_bytes(leaf) for leaf in found]
        return [leaf.item() if not leaf.ndim else leaf for leaf in found]
    return found if dtypes <= {dtype} else [leaf.astype(dtype) for leaf in found]


class _OtherStructure(Exception):
    expected = "to have the structure, the types and the numbers of axes of the first one"


class _OtherShape(_OtherStructure):
    expected = "to have the shapes of the first one"


@contextlib.contextmanager
def _without_what_was_read():
    """Context in which errors of reading are raised without what they say of an example."""
    try:
        yield
    except _OtherStructure as error:
        raise ValueError(f"{CANNOT_READ} {error.expected}, got another one. {_REMEDY}") from None
    except Exception as error:  # whatever code of the user's raises
        raise ValueError(
            f"{CANNOT_READ} to be read, got {type(error).__name__}. Its text is left out, since it "
            f"may show private values. {_REMEDY}"
        ) from None


def parts_of_example(example, name):
    """Returns the triple (x, y, sample_weight) of an example, None for missing parts.

    Raises TypeError for a dict, which does not say what is x, and ValueError for other than one to
    three parts.
    """
    if isinstance(example, dict):
        keys = ", ".join(map(repr, list(example)[:6]))
        raise TypeError(
            f"Expected examples (x, y) or (x, y, sample_weight) of {name}, got a dict with the "
            f'keys {keys}. Name x and y: MappedSource(source, lambda example: (example["image"], '
            'example["label"])).'
        )
    parts = example if _is_several(example) else (example,)
    if not 1 <= len(parts) <= 3:
        raise ValueError(
            f"Expected examples (x, y) or (x, y, sample_weight) of {name}, got {len(parts)} parts. "
            "Several inputs go in a tuple or a dict of their own: ((a, b), y)."
        )
    for part, role in zip(parts, ("x", "y", "sample_weight"), strict=False):
        if is_source(part):
            raise TypeError(f"Expected {role} to be an array, got {type(part).__name__}.")
    return (*parts, None, None)[:3]


def check_example(dtype, shape, name):
    """Raises TypeError or ValueError for a leaf of other than numbers and, in x, texts.

    `shape` is (N, ...), and `name` is what errors call the leaf, beginning with that of the part of
    an example.
    """
    if dtype.kind not in ("biufOSU" if name.startswith("x") else "biuf"):
        raise TypeError(
            f"Expected {name} to hold booleans, integers or floats, got dtype {dtype}. Convert "
            "texts to ids with `hash_tokens`, other types with `astype(np.float32)`."
        )
    if not shape:
        raise ValueError(f"Expected {name} to be an array of shape [N, ...], got a scalar.")


def _as_array(leaf):
    if isinstance(leaf, (str, bytes)):  # NumPy's own texts lose zero bytes at their end.
        array = np.empty((), dtype=object)
        array[()] = leaf.encode() if isinstance(leaf, str) else leaf
        return array
    array = leaf if type(leaf) is np.ndarray else np.asarray(leaf)
    if array.dtype.kind == "O" and not all(isinstance(t, (str, bytes)) for t in array.flat):
        raise TypeError(
            f"Expected arrays of numbers or texts in an example, got a {type(leaf).__name__}."
        )
    return array


def _is_several(example):
    return isinstance(example, (tuple, list))


def _native(dtype):
    return np.dtype(dtype).newbyteorder("=") if np.dtype(dtype).kind in "biuf" else np.dtype(object)


def structured(template, leaves):
    """Returns a template with its numbers of leaves replaced by these."""
    return tf.nest.map_structure(lambda at: None if at is None else leaves[at], template)
