"""Neighbouring batches: the same rows with one more, one less, or another in its place.

A row that is left out keeps its place as padding, so that both batches have the same shape and
every other row gets the same random numbers in both.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfdpnorm.data import Lot

_OUTLIERS = (10.0, 1e3, 1e6)
# A replacement by the opposite row changes the sum most.
_FACTORS = (-1.0, *_OUTLIERS)
_MOST_LABELS = 10


class Row(NamedTuple):
    """A row that a neighbour may hold; its name says what is special about it.

    `x` and `y` are structures of arrays [...], without the axis of the rows.
    """

    name: str
    x: Any
    y: Any


class Frame(NamedTuple):
    """A batch of n rows with one open place; its name says what is special about it.

    Attributes:
        x, y: Structures of arrays [n, ...].
        place: Number of the row in which neighbours differ.
        rows_per_person: R, where a "row" is a person with R rows, [R, ...]; or None.
    """

    name: str
    x: Any
    y: Any
    place: int
    rows_per_person: int | None = None

    def lot(self, row=None, rows_per_batch=None):
        """Returns the `tfdpnorm.data.Lot` with a `Row` in the open place, or with padding there.

        A physical batch has `rows_per_batch` = P rows; None for all rows in one.
        """
        count = len(tf.nest.flatten(self.x)[0])
        per_batch = min(rows_per_batch or count, count)
        batches = -(-count // per_batch)
        mask = np.zeros(batches * per_batch, np.float32)
        mask[:count] = 1.0
        mask[self.place] = float(row is not None)

        def laid_out(rows, one):
            full = np.zeros((len(mask), *rows.shape[1:]), rows.dtype)
            full[:count] = rows
            full[self.place] = 0 if one is None else one
            return tf.constant(full.reshape(batches, per_batch, *rows.shape[1:]))

        def structure(rows, one):
            if row is None:
                return tf.nest.map_structure(lambda leaf: laid_out(leaf, None), rows)
            return tf.nest.map_structure(laid_out, rows, one)

        mask_tensor = tf.constant(mask.reshape(batches, per_batch))
        return Lot(
            structure(self.x, row and row.x),
            structure(self.y, row and row.y),
            row_weights(mask_tensor, self.rows_per_person),
            mask_tensor,
        )


def row_weights(mask, rows_per_person):
    """The weights of a `Lot` with that mask [...]: [..., R] where its examples are persons."""
    if rows_per_person is None:
        return mask
    return tf.repeat(mask[..., tf.newaxis], rows_per_person, axis=-1)


def frames(x, y, rows_per_person=None):
    """Returns `Frame`s in which to change a row: at several places, and among equal rows.

    `x` and `y` are structures of arrays [n, ...], the rows of a batch and their targets. The first
    frame has the first place open.
    """
    count = len(tf.nest.flatten(x)[0])
    crowd = lambda leaf: np.repeat(leaf[-1:], count, axis=0)  # noqa: E731
    return [
        Frame("first place", x, y, 0, rows_per_person),
        Frame("middle place", x, y, count // 2, rows_per_person),
        Frame("last place", x, y, count - 1, rows_per_person),
        Frame(
            "among equal rows",
            tf.nest.map_structure(crowd, x),
            tf.nest.map_structure(crowd, y),
            0,
            rows_per_person,
        ),
    ]


def unusual_rows(x, y, rng):
    """Returns a list of `Row` that could change a clipped sum a lot, made from those of a batch.

    Typical rows, the first of them the batch's own first row, outliers by a factor and in one
    entry, random ids, and extreme labels: each class, or targets far from the others. `x` and `y`
    are structures of arrays [n, ...], n >= 2.
    """
    pick = lambda rows, index: tf.nest.map_structure(lambda leaf: leaf[index], rows)  # noqa: E731
    inputs = {"typical": pick(x, 0), "another": pick(x, 1)}
    for name, change in _input_changes(rng).items():
        changed = tf.nest.map_structure(change, inputs["typical"], x)
        if not _equal(changed, inputs["typical"]):
            inputs[name] = changed
    labels = _labels(y)
    rows = [Row(name, value, pick(y, 0)) for name, value in inputs.items()]
    rows += [
        Row(f"{name}, {label}", inputs[name], target)
        for name in inputs
        for label, target in (labels if name == "typical" else labels[-1:])
    ]
    return rows


def _input_changes(rng):
    def floats_only(change):
        return lambda leaf, rows: change(leaf) if leaf.dtype.kind == "f" else leaf

    def ids_only(change):
        return lambda leaf, rows: leaf if leaf.dtype.kind == "f" else change(leaf, rows)

    def one_entry(size):
        def change(leaf):
            leaf = np.array(leaf)
            leaf.reshape(-1)[rng.integers(leaf.size)] = size
            return leaf

        return change

    changes = {}
    for size in _FACTORS:
        changes[f"x {size:g}"] = floats_only(lambda leaf, size=size: leaf * leaf.dtype.type(size))
    for size in _OUTLIERS[1:]:
        changes[f"one entry {size:g}"] = floats_only(one_entry(size))
    changes["one id"] = ids_only(lambda leaf, rows: np.full_like(leaf, rows.max()))
    changes["random ids"] = ids_only(
        lambda leaf, rows: rng.integers(
            rows.min(), rows.max(), size=leaf.shape, endpoint=True
        ).astype(leaf.dtype)
    )
    return changes


def _equal(a, b):
    return all(map(np.array_equal, tf.nest.flatten(a), tf.nest.flatten(b)))


def _labels(y):
    """Pairs of a name and a target: every class, or targets far from the others."""
    flat = tf.nest.flatten(y)
    if all(leaf.dtype.kind in "iub" for leaf in flat):
        classes = [np.unique(leaf) for leaf in flat]
        most = min(max(map(len, classes)), _MOST_LABELS)
        chosen = [
            (f"label {index}", [c[index * (len(c) - 1) // max(most - 1, 1)] for c in classes])
            for index in range(most)
        ]
    else:
        chosen = [
            (f"target x {size:g}", [leaf[0] * leaf.dtype.type(size) for leaf in flat])
            for size in _FACTORS
        ]
    return [
        (
            name,
            tf.nest.pack_sequence_as(
                y, [np.broadcast_to(v, leaf[0].shape) for v, leaf in zip(values, flat, strict=True)]
            ),
        )
        for name, values in chosen
    ]
