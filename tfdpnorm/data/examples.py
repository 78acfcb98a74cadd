"""The one form in which every source hands over its examples."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Examples:
    """One split of a labelled data set, in memory.

    Attributes:
        name: name of the set, such as "mnist".
        split: name of the split, such as "train".
        x: images: float32 in [0, 1], channels last, shape [N, H, W, C]; texts: `str`, shape [N].
        y: int32 labels in [0, num_classes), shape [N].
        num_classes: number of classes.
        is_complete: whether N is the official size of the split. An epsilon is computed from the N
            that is here, whether it is or not.
        origin: in words, its source, if that is not the official one; "" if it is
            that, or no one knows.
        class_names: names of the classes by label, a tuple of strings; () if they are not known.
        persons: whose each example is, integers [N]; None where each is of another person.

    Raises:
        ValueError: if x, y and persons differ in length, a label is out of range, or there are not
            as many names as classes.
    """

    name: str
    split: str
    x: np.ndarray
    y: np.ndarray
    num_classes: int
    is_complete: bool
    origin: str = ""
    class_names: tuple = ()
    persons: np.ndarray | None = None

    def __post_init__(self):
        if self.y.ndim != 1 or len(self.x) != len(self.y):
            raise ValueError(
                f"Expected x of shape [N, ...] and y of shape [N], got shapes "
                f"{list(self.x.shape)} and {list(self.y.shape)}."
            )
        if self.persons is not None and np.shape(self.persons) != self.y.shape:
            raise ValueError(
                f"Expected persons of shape {list(self.y.shape)}, as y has, got "
                f"{list(np.shape(self.persons))}."
            )
        if len(self.y) and not 0 <= self.y.min() <= self.y.max() < self.num_classes:
            raise ValueError(
                f"Expected labels in [0, {self.num_classes}), got labels from "
                f"{self.y.min()} to {self.y.max()}."
            )
        if self.class_names and len(self.class_names) != self.num_classes:
            raise ValueError(
                f"Expected {self.num_classes} class_names, got {len(self.class_names)}."
            )

    def __len__(self):
        return len(self.y)

    @property
    def num_persons(self) -> int:
        """Number of persons whose examples these are."""
        return len(self) if self.persons is None else len(np.unique(self.persons))

    def take_persons(self, numbers: ArrayLike, split: str | None = None) -> Examples:
        """Returns all examples of some persons, in their order; see `take`.

        Args:
            numbers: Numbers of the persons, int [n], in the order of their first examples.
            split: Name of the split; None for the present one.
        """
        owners = np.arange(len(self))
        if self.persons is not None:
            _, first, which = np.unique(self.persons, return_index=True, return_inverse=True)
            owners = np.argsort(np.argsort(first))[which]
        return self.take(np.flatnonzero(np.isin(owners, numbers)), split)

    def take(self, rows: ArrayLike, split: str | None = None) -> Examples:
        """Returns the examples numbered `rows` (int, shape [n]), never marked complete."""
        return dataclasses.replace(
            self,
            x=self.x[rows],
            y=self.y[rows],
            persons=None if self.persons is None else self.persons[rows],
            is_complete=False,
            split=self.split if split is None else split,
        )

    def labelled_as(self, other: Examples) -> Examples:
        """Returns the examples with the labels that their classes have in another set.

        Where the names of the classes of either are not known, labels are taken to mean the same.

        Args:
            other: `Examples`.

        Raises:
            ValueError: if the names are known, and not the same in some order.
        """
        ours, theirs = self.class_names, other.class_names
        if not (ours and theirs) or ours == theirs:
            return self
        if sorted(ours) != sorted(theirs):
            raise ValueError(
                f"Expected {self.name} to have the classes of {other.name}, such as "
                f"{_shown(set(theirs) - set(ours) or theirs)}, got {_shown(ours)}."
            )
        label = np.array([theirs.index(name) for name in ours], np.int32)
        return dataclasses.replace(self, y=label[self.y], class_names=theirs)

    def __repr__(self):
        return (
            f"Examples({self.name!r}, {self.split!r}, x={self.x.dtype}{list(self.x.shape)}, "
            f"num_classes={self.num_classes}, is_complete={self.is_complete})"
        )


def _shown(names, most=4):
    names = sorted(names)
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
