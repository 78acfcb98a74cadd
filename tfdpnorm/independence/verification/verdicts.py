"""Verdicts on tensors: the axis of the examples, if the tensor keeps them separate."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Free:
    """Depends on no example: weights, constants, public rows, shapes, random numbers, positions."""

    def __str__(self):
        return "free of examples"


@dataclasses.dataclass(frozen=True)
class Rows:
    """Along one axis, each entry depends on one example, on its position, and on what is free.

    Entry r of the axis belongs to example (r // per_example) mod P, where P is the number of
    examples: `blocks` times over, the entries of all examples follow each other in their order.

    Attributes:
        axis: The axis, from 0.
        per_example: m, how many entries that follow each other belong to one example.
        blocks: How often all examples come; more than 1 where several batches are joined, or where
            other axes before that of the examples were merged into it.
    """

    axis: int
    per_example: int = 1
    blocks: int = 1

    def at(self, axis):
        """The same entries on another axis."""
        return dataclasses.replace(self, axis=axis)

    def period(self, examples):
        """How many entries hold each example once."""
        return examples * self.per_example

    def size(self, examples):
        """How many entries the axis has, for so many examples."""
        return self.blocks * self.period(examples)

    def __str__(self):
        words = f"{self.per_example} row(s) for each example on axis {self.axis}"
        return words if self.blocks == 1 else f"{words}, {self.blocks} times over"


@dataclasses.dataclass(frozen=True)
class ListOf:
    """A tensor list of free length, of which every element is `element` or free."""

    element: Any

    def __str__(self):
        return f"a list of tensors, each {self.element}"


@dataclasses.dataclass(frozen=True)
class Mixed:
    """The examples have met, or no rule says that they have not; `why` says it in words.

    Attributes:
        op_name: Name of the operation where it happened, within all functions that call it.
        scope: The name scope that it is in: that of its layer.
        is_meeting: Whether examples are known to meet, rather than not known to be apart.
    """

    op_name: str
    op_type: str
    scope: str
    why: str
    is_meeting: bool = False

    def __str__(self):
        return f"{self.op_type} {self.op_name!r} in {self.scope or 'no scope'}: {self.why}"


FREE = Free()


def join(one, other):
    """The verdict on a value that is one or the other; None if there is none.

    A free tensor is of rows as well, if it has their shape (see `fits`): the caller has to see to
    that.
    """
    for verdict in (one, other):
        if isinstance(verdict, Mixed):
            return verdict
    if isinstance(one, ListOf) or isinstance(other, ListOf):
        # A list that is free has free elements.
        elements = [v.element if isinstance(v, ListOf) else v for v in (one, other)]
        element = None if isinstance(one, Rows) or isinstance(other, Rows) else join(*elements)
        return element if element is None or isinstance(element, Mixed) else ListOf(element)
    if one == FREE:
        return other
    return one if other in (FREE, one) else None


def fits(verdict, shape, examples):
    """Whether a verdict on a tensor of this static shape, None if unknown, can be true."""
    if not isinstance(verdict, Rows):
        return True
    if shape is None or not 0 <= verdict.axis < len(shape):
        return False
    return shape[verdict.axis] == verdict.size(examples)
