"""Examples on demand: those of a batch are read, decoded and put into their slots ahead of its use.

`tf.data` reads and decodes: one thread reads, since a source need not support several, and the
functions of a `MappedSource` run in TensorFlow's threads.
"""

import numpy as np
import tensorflow as tf

from tfdpnorm.data import arrays
from tfdpnorm.data.inputs import UnreadInputs
from tfdpnorm.data.readers import (
    Columns,
    Items,
    UnreadArray,
    check_example,
    parts_of_example,
    structured,
)
from tfdpnorm.data.sources import MappedSource, is_of_known_library, is_unread

# Examples of a block, where all of them are passed through.
_BLOCK = 256

# Examples that are mapped at the same time. With few, threads wait for each other for as long as
# decoding a small image takes; `tf.data.AUTOTUNE` would begin with few again for each batch.
_AT_ONCE = 64


class ExamplesOnDemand:
    """Examples of a source, or of arrays in files, of which a batch's alone are read.

    Checks of values that are made of arrays before training cannot be made here without reading all
    examples, and an error while training would reveal one. So an example with a negative weight
    gets the weight NaN: its gradient is not finite, and counts as zero. Raises TypeError if weights
    are not one array.

    Args:
        read: `_Stacked` or `_Mapped`.
        origin: List of the objects that are read.
        reads_own_code: Whether code that this library does not know reads or maps the examples.

    Attributes:
        parts: Triple (x, y, sample_weight) of structures of `UnreadArray`, of N = `count` examples.
        inputs: `UnreadInputs`.
    """

    is_read_on_demand = True

    def __init__(self, read, origin, reads_own_code):
        self.count, self.reads_own_code, self._read = read.count, reads_own_code, read
        x, y, weight = read.specs
        if weight is None:
            weight = tf.TensorSpec([], tf.float32)
        elif not isinstance(weight, tf.TensorSpec) or weight.dtype == tf.string:
            raise TypeError(
                "sample_weight is not one array of numbers. Pass one, and weight outputs with "
                "compile(loss_weights=...)."
            )

        weight = tf.TensorSpec([] if weight.shape == [1] else weight.shape, tf.float32)

        def unread(spec):
            shape = (self.count, *spec.shape)
            return UnreadArray(shape, spec.dtype.as_numpy_dtype)

        self.parts = _mapped_parts(unread, (x, y, weight))
        self.inputs = UnreadInputs(
            self.parts[0], lambda: (x for x, _, _ in self.blocks()), self._some_x, origin
        )

    def lot(self, placed):
        """As `ExamplesInMemory.lot`."""
        x, y, weight = self._read(placed)
        if weight is None:
            weight = tf.cast(placed < self.count, tf.float32)
        weight = tf.cast(weight, tf.float32)
        if weight.shape[2:] == [1]:
            weight = weight[..., 0]
        return x, y, tf.where(weight < 0, np.float32(np.nan), weight)

    def blocks(self):
        """Yields triples (x, y, sample_weight) of arrays [n, ...], of all examples in their order.

        All are read, once.
        """
        starts = tf.data.Dataset.range(0, self.count, _BLOCK)
        rows = starts.map(lambda start: tf.range(start, tf.minimum(start + _BLOCK, self.count)))
        yield from self._read_in_turn(rows)

    def _some_x(self):
        spread = np.unique(np.linspace(0, self.count - 1, _BLOCK, dtype=np.int64))
        return next(self._read_in_turn(tf.data.Dataset.from_tensors(spread)))[0]

    def _read_in_turn(self, rows):
        """Yields the parts of the examples with the numbers in each element of a dataset."""
        for block in rows.map(lambda rows: self.lot(rows[tf.newaxis])).prefetch(1):
            yield _mapped_parts(lambda t: t.numpy()[0], block)


def _mapped_parts(function, parts):
    return tuple(None if p is None else tf.nest.map_structure(function, p) for p in parts)


def source_on_demand(source):
    """Returns the `ExamplesOnDemand` of a source; see `tfdpnorm.data.poisson_batches`."""
    origin = [source]
    if not isinstance(source, MappedSource):
        return ExamplesOnDemand(_Stacked(Items(source)), origin, reads_own_code=True)
    own = source.reads_own_code
    source, functions = source.unmapped()
    items = Items(source, may_be_any=True)
    return ExamplesOnDemand(_Mapped(items, functions), origin, reads_own_code=own)


def columns_on_demand(x, y, sample_weight):
    """Returns the `ExamplesOnDemand` of arrays [N, ...], some of which are in files."""
    read, origin = _Stacked(Columns(x, y, sample_weight)), tf.nest.flatten((x, y, sample_weight))
    own = any(is_unread(leaf) and not is_of_known_library(leaf) for leaf in origin)
    return ExamplesOnDemand(read, origin, reads_own_code=own)


class _Stacked:
    """Reads examples of one shape into their slots."""

    def __init__(self, reader):
        self._reader, self.count = reader, len(reader)
        specs = [tf.TensorSpec(leaf.shape[1:], leaf.dtype) for leaf in reader.leaves]
        self.specs = structured(reader.template, specs)

    def __call__(self, placed):
        leaves, reader, count = self._reader.leaves, self._reader, self.count

        def read(placed):
            targets = [_zeros((placed.size, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
            reader.fill(targets, *_members(placed.reshape(-1), count))
            return [t.reshape(*placed.shape, *t.shape[1:]) for t in targets]

        tensors = _in_python(read, placed, [leaf.dtype for leaf in leaves])
        for tensor, leaf in zip(tensors, leaves, strict=True):
            tensor.set_shape([*placed.shape, *leaf.shape[1:]])
        return structured(reader.template, tensors)


class _Mapped:
    """Reads examples of any size as bytes, and maps each by functions in TensorFlow's threads."""

    def __init__(self, items, functions):
        self._items, self._functions, self.count = items, functions, len(items)
        if any(leaf.dtype == object and leaf.ndim > 1 for leaf in items.leaves):
            raise TypeError(
                "Expected single texts in examples to map, got an array of texts. Join them into "
                "one, or give them as several."
            )
        # Examples may differ in size, unless the functions have to know it.
        self._leaves = [UnreadArray([None] * leaf.ndim, leaf.dtype) for leaf in items.leaves]
        try:
            specs = self._specs_of_one()
        except Exception:  # whatever a function of the user's raises; it is called again
            specs = None
        self._same_shapes = specs is None or not _are_fixed(specs)
        if self._same_shapes:
            self._leaves = items.leaves
            specs = self._specs_of_one()
        if not _are_fixed(specs):
            raise ValueError(
                "Expected the function of a MappedSource to return examples of one shape, got "
                f"{[s.shape.as_list() for s in tf.nest.flatten(specs)]}. Resize, crop or pad what "
                "differs, and say its size: tf.ensure_shape(image, [64, 64, 3])."
            )
        self._made_specs = specs
        self.specs = (*specs, None, None)[:3]

    def __call__(self, placed):
        flat = tf.reshape(placed, [-1])
        dtypes = [np.int64, *[object, np.int64] * len(self._leaves)]
        slots, *raw = _in_python(self._raw, flat, dtypes)
        for tensor in (slots, *raw[::2]):
            tensor.set_shape([None])
        for shapes, leaf in zip(raw[1::2], self._leaves, strict=True):
            shapes.set_shape([None, leaf.ndim - 1])
        count = tf.size(slots, tf.int64)

        def made():
            examples = tf.data.Dataset.from_tensor_slices((slots, *raw))
            # In any order: each takes its slot with it.
            examples = examples.map(
                lambda slot, *raw: (slot, self._mapped(raw)), _AT_ONCE, deterministic=False
            )
            return examples.batch(count, drop_remainder=True).get_single_element()

        def none():
            empty = tf.nest.map_structure(lambda s: tf.zeros([0, *s.shape], s.dtype), specs)
            return slots, empty

        def in_slots(examples, spec):
            shape = tf.concat([tf.shape(flat, tf.int64), spec.shape], 0)
            tensor = tf.scatter_nd(at[:, tf.newaxis], examples, shape)
            tensor = tf.reshape(tensor, tf.concat([tf.shape(placed), spec.shape], 0))
            return tf.ensure_shape(tensor, [*placed.shape, *spec.shape])

        specs = self._made_specs
        at, examples = tf.cond(count > 0, made, none)
        return (*tf.nest.map_structure(in_slots, examples, specs), None, None)[:3]

    def _raw(self, placed):
        """The slots of the examples, and bytes and shapes of each leaf: arrays [examples, ...]."""
        slots, rows = _members(placed, self.count)
        columns = [slots]
        read = self._items.read(rows, same_shapes=self._same_shapes)
        for values, leaf in zip(read, self._leaves, strict=True):
            contents = _zeros(len(rows), object)
            is_text = leaf.dtype == object
            contents[:] = values if is_text else [value.tobytes() for value in values]
            shapes = [() if is_text else value.shape for value in values]
            columns += [contents, np.array(shapes, np.int64).reshape(len(rows), leaf.ndim - 1)]
        return columns

    def _mapped(self, raw):
        """The parts of an example, from the bytes and the shapes of its leaves."""
        pairs = zip(raw[::2], raw[1::2], self._leaves, strict=True)
        example = structured(self._items.template, [_from_bytes(*each) for each in pairs])
        for function in self._functions:
            example = function(*(example if type(example) is tuple else (example,)))
        parts = parts_of_example(example, "the function")
        named = [(p, n) for p, n in zip(parts, ("x", "y", "sample_weight"), strict=True)]
        return tuple(
            arrays.map_leaves(lambda leaf, _: tf.convert_to_tensor(leaf), part, name)
            for part, name in named
            if part is not None
        )

    def _specs_of_one(self):
        raw = tuple(
            part for leaf in self._leaves for part in ("", np.zeros(leaf.ndim - 1, np.int64))
        )
        specs = tf.data.Dataset.from_tensors(raw).map(lambda *raw: self._mapped(raw)).element_spec
        for part, name in zip(specs, ("x", "y", "sample_weight"), strict=False):
            arrays.map_leaves(lambda spec, n: _check_spec(spec, n), part, name)
        return specs


def _in_python(function, placed, dtypes):
    return tf.numpy_function(function, [placed], [tf.as_dtype(d) for d in dtypes], stateful=True)


def _members(placed, count):
    """The slots of examples, and their numbers, which ascend."""
    slots = np.flatnonzero(placed < count)
    slots = slots[np.argsort(placed[slots])]
    return slots, placed[slots]


def _zeros(shape, dtype):
    array = np.zeros(shape, dtype)
    if array.dtype == object:
        array.fill(b"")
    return array


# Of the types that `decode_raw` does not know.
_OF_ONE_SIZE = {"uint32": tf.int32, "uint64": tf.int64}


def _from_bytes(content, shape, leaf):
    if leaf.dtype == object:
        return content
    dtype = tf.as_dtype(leaf.dtype)
    numbers = tf.io.decode_raw(content, _OF_ONE_SIZE.get(dtype.name, dtype))
    if numbers.dtype != dtype:
        numbers = tf.bitcast(numbers, dtype)
    return tf.ensure_shape(tf.reshape(numbers, shape), leaf.shape[1:])


def _are_fixed(specs):
    return all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(specs))


def _check_spec(spec, name):
    dtype = np.dtype(spec.dtype.as_numpy_dtype)
    if spec.shape.rank is not None:
        check_example(dtype, ("N", *spec.shape), name)
