"""The one form in which every source hands over its examples."""

import dataclasses

import numpy as np


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
        origin: in words, what it was made from, should that not be the official source; "" if it is
            that, or nobody knows.

    Raises:
        ValueError: if x and y differ in length, or a label is out of range.
    """

    name: str
    split: str
    x: np.ndarray
    y: np.ndarray
    num_classes: int
    is_complete: bool
    origin: str = ""

    def __post_init__(self):
        if self.y.ndim != 1 or len(self.x) != len(self.y):
            raise ValueError(
                f"Expected x of shape [N, ...] and y of shape [N], got shapes "
                f"{list(self.x.shape)} and {list(self.y.shape)}."
            )
        if len(self.y) and not 0 <= self.y.min() <= self.y.max() < self.num_classes:
            raise ValueError(
                f"Expected labels in [0, {self.num_classes}), got labels from "
                f"{self.y.min()} to {self.y.max()}."
            )

    def __len__(self):
        return len(self.y)

    def take(self, rows, split=None):
        """Returns the examples numbered `rows` (int, shape [n]), never marked complete."""
        return dataclasses.replace(
            self,
            x=self.x[rows],
            y=self.y[rows],
            is_complete=False,
            split=self.split if split is None else split,
        )

    def __repr__(self):
        return (
            f"Examples({self.name!r}, {self.split!r}, x={self.x.dtype}{list(self.x.shape)}, "
            f"num_classes={self.num_classes}, is_complete={self.is_complete})"
        )
