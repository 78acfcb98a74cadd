"""The rows that the model runs for an example: its views, or the views of a person's rows.

The gradient of an example is that of the mean loss of these rows, and is clipped as one.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


class Views:
    """Makes the K augmented views of each example, and averages a model's outputs for them.

    The gradient of an example is that of the mean loss of its views, and is clipped as one: views
    take K times the time and memory, and the guarantee is the same.

    Args:
        augmentation: None, or a Keras layer or a function from inputs [rows, ...] to as many, that
            makes a view of each row *by itself*: if one row changes the view of another, no
            guarantee holds. Or a list of K of them, one for each view. Random numbers must be
            drawn independently of the rows' values; they may depend on a row's position, and need
            not be secret.
        multiplicity: K, the augmentation multiplicity: the number of views of each example.

    Attributes:
        augmentations: Tuple of the none, one or K augmentations.
        rows_per_person: R, where an example is a person with R rows; None where it is one row.

    Raises:
        ValueError: for anything else.

    Example::

        views = tfdpnorm.Views(keras.layers.GaussianNoise(0.1), multiplicity=4)
        private = tfdpnorm.make_private(model, plan, views=views, public_batch=public_rows)

    Reference:
        De et al. (2022), "Unlocking high-accuracy differentially private image classification
        through scale", Section 3.
    """

    def __init__(
        self, augmentation: Callable | Sequence[Callable] | None = None, multiplicity: int = 1
    ) -> None:
        self.multiplicity = arguments.integer(
            "multiplicity", multiplicity, at_least=1, wrong_type=ValueError
        )
        if augmentation is None:
            augmentation = ()
        elif isinstance(augmentation, (list, tuple)):
            if len(augmentation) != multiplicity or not all(map(callable, augmentation)):
                raise ValueError(
                    f"Expected as many augmentations as multiplicity={multiplicity}, Keras layers "
                    f"or functions of rows, got {augmentation!r}."
                )
        elif not callable(augmentation):
            raise ValueError(
                "Expected augmentation to be a Keras layer or a function of rows, or a list of "
                f"them, got {type(augmentation).__name__}."
            )
        else:
            augmentation = (augmentation,)
        self.augmentations = tuple(augmentation)
        self.rows_per_person = None

    def of_persons(self, rows_per_person: int | None) -> Views:
        """Returns these views, of each row of examples that are persons with so many rows."""
        views = copy.copy(self)
        views.rows_per_person = rows_per_person
        return views

    @property
    def rows_per_example(self) -> int:
        """How many rows the model runs for an example."""
        return self.multiplicity * (self.rows_per_person or 1)

    def __call__(self, x: Any) -> Any:
        """Returns the rows that the model runs for examples [n, ...] or [n, R, ...]: [n, G, ...].

        G is `rows_per_example`; without persons and with one view there is no such axis.
        """
        x = self._rows(x)
        if len(self.augmentations) > 1:
            views = [_augmented(augmentation, x) for augmentation in self.augmentations]
            x = tf.nest.map_structure(lambda *each: _joined(tf.stack(each, axis=1)), *views)
        else:
            x = self._repeated(x)
            for augmentation in self.augmentations:
                x = _augmented(augmentation, x)
        if self.rows_per_person is None and self.multiplicity == 1:
            return x
        return tf.nest.map_structure(lambda t: _split(t, self.rows_per_example), x)

    def as_rows(self, views: Any) -> Any:
        """The result of `__call__` as rows [n * G, ...], those of an example in sequence."""
        if self.rows_per_person is None and self.multiplicity == 1:
            return views
        return tf.nest.map_structure(_joined, views)

    def repeated(self, values: Any) -> Any:
        """Values of examples [n, ...], or [n, R, ...], for each of these rows: [n * G, ...]."""
        return self._repeated(self._rows(values))

    def mean(self, values: tf.Tensor) -> tf.Tensor:
        """The mean over the rows of each example: [n * G, ...] to [n, ...]."""
        if self.rows_per_example == 1:
            return values
        return tf.reduce_mean(_split(values, self.rows_per_example), axis=1)

    def shown(self, values: Any) -> Any:
        """The mean over views: [n * G, ...] to [n, ...], or to the rows of persons [n, R, ...]."""
        if self.multiplicity > 1:
            values = tf.reduce_mean(_split(values, self.multiplicity), axis=1)
        return values if self.rows_per_person is None else _split(values, self.rows_per_person)

    def _rows(self, x):
        return x if self.rows_per_person is None else tf.nest.map_structure(_joined, x)

    def _repeated(self, rows):
        if self.multiplicity == 1:
            return rows
        return tf.nest.map_structure(lambda t: tf.repeat(t, self.multiplicity, axis=0), rows)


def _augmented(augmentation, x):
    if isinstance(augmentation, keras.layers.Layer):
        found = augmentation(x, training=True)
    else:
        found = augmentation(x)
    given, made = tf.nest.flatten(x), tf.nest.flatten(found)
    if len(given) != len(made) or any(
        not m.shape[:1].is_compatible_with(g.shape[:1]) for g, m in zip(given, made, strict=False)
    ):
        raise ValueError(
            f"Expected the augmentation to return as many rows as it takes, {given[0].shape[0]}, "
            f"got shapes {[tuple(m.shape) for m in made]}."
        )
    return found


def _split(t, count):
    """[n * count, ...] to [n, count, ...]."""
    rows = None if t.shape[0] is None else t.shape[0] // count
    split = tf.reshape(t, tf.concat([[-1, count], tf.shape(t)[1:]], 0))
    return tf.ensure_shape(split, [rows, count, *t.shape[1:]])


def _joined(t):
    """[n, count, ...] to [n * count, ...]."""
    rows = None if t.shape[0] is None else t.shape[0] * t.shape[1]
    return tf.ensure_shape(
        tf.reshape(t, tf.concat([[-1], tf.shape(t)[2:]], 0)), [rows, *t.shape[2:]]
    )
