"""Rows to probe with: made up from shapes and types alone, or given."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.models import sublayers, symbolic_inputs

ROWS = 4
OUTLIER = 1000.0
_UNKNOWN_SIZE = 32
_WORDS = ("a", "of", "the", "word", "other", "some", "more", "text")


class ProbeRows(NamedTuple):
    """Three values for each of n rows.

    Attributes:
        base: Structure of arrays [n, ...].
        other: The same for ordinary rows that differ from `base`.
        outlier: The same for rows far from all others.
    """

    base: Any
    other: Any
    outlier: Any

    @property
    def count(self):
        """n."""
        return len(tf.nest.flatten(self.base)[0])

    def joined_with(self, rows):
        """Pairs of these and other `ProbeRows`, for functions of two structures."""
        return ProbeRows(*zip(self, rows, strict=True))


def chosen(mask, ours, theirs):
    """Rows of `ours` where `mask` [n] is true, of `theirs` elsewhere."""
    return tf.nest.map_structure(
        lambda a, b: np.where(np.reshape(mask, [-1] + [1] * (np.ndim(a) - 1)), a, b), ours, theirs
    )


def kept(mask, rows):
    """The rows for which `mask` [n] is true."""
    return tf.nest.map_structure(lambda a: a[mask], rows)


def splits(count):
    """Yields masks [count] that separate each pair of rows, in both roles.

    They are the binary digits of the rows' numbers and their complements.
    """
    numbers = np.arange(count)
    for digit in range(max(1, int(count - 1).bit_length())):
        mask = (numbers >> digit) & 1 == 0
        yield from (mask, ~mask)


def made_up_rows(specs, *, bound=2, unit=False, whole=False, rows=ROWS, seed=0):
    """Makes rows up, without looking at data.

    Args:
        specs: Structure of `tf.TensorSpec`, Keras tensors or arrays [n, ...], of which only shapes
            and types count. Unknown sizes become 32, an unknown number of rows becomes `rows`.
        bound: Integers are in [0, bound); those of a byte are in [0, 256) if `bound` is 2.
        unit: Whether floats are from [0, 1), as labels and probabilities are, or normal numbers.
        whole: Whether floats are integers in [0, bound), as ids are that come as floats.
        rows: n.
        seed: Of NumPy's generator.

    Returns:
        `ProbeRows`.

    Raises:
        ValueError: for a spec without a known rank or an axis of rows.
    """
    rng = np.random.default_rng(seed)
    flat = [_leaf(_as_spec(spec), bound, unit, whole, rows, rng) for spec in tf.nest.flatten(specs)]
    return ProbeRows(*(tf.nest.pack_sequence_as(specs, part) for part in zip(*flat, strict=True)))


def rows_like(rows, count=ROWS):
    """`ProbeRows` from rows that the caller vouches for.

    Args:
        rows: Structure of arrays [m, ...], m >= 2. The first n become `base`, those after them
            `other`; floats times 1000 are the outliers.
        count: n at most; m if that is smaller.

    Raises:
        ValueError: for fewer than 2 rows.
    """
    rows = tf.nest.map_structure(np.asarray, rows)
    given = {len(a) if a.ndim else 0 for a in tf.nest.flatten(rows)}
    if len(given) != 1 or min(given) < 2:
        raise ValueError(
            "Expected the same number of rows to probe with in each array, 2 or more, got "
            f"{sorted(given)}. Pass some 8 rows."
        )
    n = min(count, *given)
    # Where no rows are left for `other`, it holds each row's successor.
    shift = n if min(given) >= 2 * n else 1
    base = tf.nest.map_structure(lambda a: a[:n], rows)
    other = tf.nest.map_structure(lambda a: np.roll(a[: n + shift], -shift, axis=0)[:n], rows)

    def far(a):
        kind = tf.as_dtype(a.dtype)
        return (a * a.dtype.type(OUTLIER)) if kind.is_floating else np.flip(a, axis=0)

    return ProbeRows(base, other, tf.nest.map_structure(far, base))


def integer_bound(model, default=2):
    """Smallest number of ids that the embeddings inside `model` know; `default` without any."""
    sizes = [layer.input_dim for layer in _inside(model, keras.layers.Embedding)]
    sizes += [layer.num_tokens for layer in _inside(model, keras.layers.CategoryEncoding)]
    return min((s for s in sizes if s is not None), default=default)


def input_specs(model):
    """Structure of specs that `model` takes; None if it is not known yet.

    Functional and Sequential models know it once they are built, others once they were called.
    """
    inputs = symbolic_inputs(model)
    if inputs is not None:
        return tf.nest.map_structure(_as_spec, inputs)
    spec = model.save_spec() if model.built else None
    return None if spec is None else spec[0][0]


def _inside(model, kind):
    return [layer for layer in (model, *sublayers(model)) if isinstance(layer, kind)]


def _as_spec(like):
    if isinstance(like, np.ndarray | np.generic | int | float | str | bool | list):
        like = np.asarray(like)
    return tf.TensorSpec(like.shape, tf.as_dtype(like.dtype))


def _leaf(spec, bound, unit, whole, rows, rng):
    if not spec.shape.rank:
        raise ValueError(
            f"Expected inputs of known rank with an axis of rows, got shape {spec.shape}. Give "
            "the shape to keras.Input, or probe your rows: tfdpnorm.audit.validate(model, x=...)."
        )
    count, *inner = spec.shape
    shape = (count or rows, *(_UNKNOWN_SIZE if size is None else size for size in inner))
    kind = spec.dtype
    if kind.is_bool:
        base = rng.random(shape) < 0.5
        return base, ~base, np.ones(shape, bool)
    if kind == tf.string:
        base, other = (rng.choice(_WORDS, shape).astype(object) for _ in range(2))
        return base, other, np.full(shape, "outlier", object)
    dtype = kind.as_numpy_dtype
    if kind.is_integer or (whole and kind.is_floating):
        bound = 256 if kind.size == 1 and bound == 2 else bound
        bound = min(bound, int(kind.max) + 1)
        base = rng.integers(bound, size=shape)
        # Never the same id, which would leave the row unchanged.
        other = (base + rng.integers(1, max(bound, 2), size=shape)) % bound
        return tuple(a.astype(dtype) for a in (base, other, np.full(shape, bound - 1)))
    if not (kind.is_floating or kind.is_complex):
        raise ValueError(
            f"Expected inputs that are numbers or words, got {kind}. Read others before the model, "
            "in the input pipeline."
        )
    base, other = (rng.random(shape) if unit else rng.normal(size=shape) for _ in range(2))
    return tuple(a.astype(dtype) for a in (base, other, OUTLIER * rng.normal(size=shape)))
