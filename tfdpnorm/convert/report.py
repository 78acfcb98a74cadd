"""The report of a conversion, layer by layer, and how much it changed the outputs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from tensorflow import keras


KEPT = "kept"


@dataclasses.dataclass(frozen=True)
class ConvertedLayer:
    """The result for one layer.

    Attributes:
        name: Name of the layer, after those of the layers and models around it.
        before: Its type.
        after: The type in its place, such as "GroupNormalization(8)" of 8 groups, or "kept".
        carried: What was carried over, in words.
        note: What was not, and why, in words; "" for nothing to say.
        is_converted: Whether it became what was asked for.
    """

    name: str
    before: str
    after: str
    carried: str = ""
    note: str = ""
    is_converted: bool = True


@dataclasses.dataclass(frozen=True)
class OutputChange:
    """How far the outputs of two models are apart, for the same rows.

    Attributes:
        rows: How many rows.
        relative: Root mean square of the change over that of the outputs before.
        largest: The largest absolute change of an output.
        same_class: Share of the rows whose largest output stays the same one; None for outputs
            that are no [rows, classes].
    """

    rows: int
    relative: float
    largest: float
    same_class: float | None

    def __str__(self):
        same = "" if self.same_class is None else f", {self.same_class:.1%} of the rows as before"
        return f"{self.relative:.2e} of their size, at most {self.largest:.2e}{same}"


@dataclasses.dataclass(frozen=True)
class ConversionReport:
    """The report of a conversion; `str()` gives it as a table.

    Attributes:
        batch_norm: What was asked for.
        layers: Tuple of `ConvertedLayer`, in the order of the model.
        trainable: How many layers with weights are trained, and how many there are.
        output_change: `OutputChange` in inference; None without public rows.
        output_change_in_training: The same where normalisation takes the moments of the public
            rows, as in private training; None where it does not.
    """

    batch_norm: str
    layers: tuple
    trainable: tuple
    output_change: OutputChange | None = None
    output_change_in_training: OutputChange | None = None

    @property
    def not_converted(self) -> tuple[ConvertedLayer, ...]:
        """The `ConvertedLayer`s that did not become what was asked for."""
        return tuple(layer for layer in self.layers if not layer.is_converted)

    def why_kept(self, layer: keras.layers.Layer) -> str | None:
        """Returns why layers like `layer` of the converted model were kept, or None.

        By its type: a layer inside of another does not always keep its name.
        """
        kept = [
            x for x in self.not_converted if (x.before, x.after) == (type(layer).__name__, KEPT)
        ]
        return kept[0].note if kept else None

    def __str__(self):
        header = ("layer", "was", "is", "carried over", "not carried over, and the reason")
        rows = [(x.name, x.before, x.after, x.carried, x.note) for x in self.layers]
        lines = [
            f"Converted to {self.batch_norm!r}: {len(rows)} layers changed or named, "
            f"{len(self.not_converted)} of them not as asked for; {self.trainable[0]} of "
            f"{self.trainable[1]} layers with weights are trained."
        ]
        if rows:
            lines += _table([header, *rows])
        if self.output_change is not None:
            lines.append(
                f"Outputs for {self.output_change.rows} public rows changed by "
                f"{self.output_change}."
            )
        if self.output_change_in_training is not None:
            lines.append(
                "With the moments of these rows, as in private training, by "
                f"{self.output_change_in_training}."
            )
        return "\n".join(lines)


def output_change(before, after):
    """Returns the `OutputChange` between two structures of outputs for the same rows."""
    pairs = list(zip(tf.nest.flatten(before), tf.nest.flatten(after), strict=True))
    pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs]
    difference = np.concatenate([(b - a).ravel() for a, b in pairs])
    size = np.sqrt(np.mean(np.concatenate([a.ravel() for a, _ in pairs]) ** 2))
    same = None
    if len(pairs) == 1 and pairs[0][0].ndim == 2 and pairs[0][0].shape[1] > 1:
        one, other = pairs[0]
        same = float(np.mean(one.argmax(axis=1) == other.argmax(axis=1)))
    return OutputChange(
        rows=len(pairs[0][0]),
        relative=float(np.sqrt(np.mean(difference**2)) / max(size, 1e-30)),
        largest=float(np.abs(difference).max()),
        same_class=same,
    )


def _table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return [lines[0], "  ".join("-" * n for n in widths), *lines[1:]]
