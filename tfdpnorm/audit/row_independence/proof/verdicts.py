"""What is known of a tensor: on which of its axes the examples lie, if they lie apart at all."""

import dataclasses
from typing import Any

_NOTHING = frozenset()


@dataclasses.dataclass(frozen=True)
class Free:
    """Depends on no example: weights, constants, public rows, shapes, random numbers.

    It stands beside rows only where it does not tell one example's place from another's. What is
    known of that takes no part in comparisons, so that `verdict == FREE` asks only whether a
    verdict is free; `same` compares all. Without it, every axis tells the places apart.

    Attributes:
        even: Whether all its entries are equal.
        layouts: Dict from `Rows` to a frozenset of `Draw`: what it may be taken for. If the draws
            move with the examples, it moves as rows do that are so laid out; without draws it does
            not change at all, since its entries are the same for all examples.
        seed: `Seed` of what may be the seed of further random numbers, or None.
        batch_wide: Frozenset of `Mixed`: the draws that it depends on, as long as these are drawn
            once for all rows of a physical batch.
    """

    even: bool = dataclasses.field(default=False, compare=False)
    layouts: Any = dataclasses.field(default_factory=dict, compare=False)
    seed: Any = dataclasses.field(default=None, compare=False)
    batch_wide: frozenset = dataclasses.field(default=_NOTHING, compare=False)

    def draws_for(self, rows):
        """The draws that have to move for it to be taken for such rows; None if nothing does it."""
        return _NOTHING if self.even else self.layouts.get(rows)

    def __str__(self):
        return "free of examples"


@dataclasses.dataclass(frozen=True)
class Rows:
    """Along one axis, each entry depends on one example, and on what is free.

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
    """The examples have met, or no rule says that they have not.

    Attributes:
        op_name: Name of the operation where it happened, within all functions that call it.
        op_type: Its type.
        scope: The name scope that it is in: that of its layer.
        why: In words.
    """

    op_name: str
    op_type: str
    scope: str
    why: str

    def __str__(self):
        return f"{self.op_type} {self.op_name!r} in {self.scope or 'no scope'}: {self.why}"


FREE = Free()
EVEN = Free(even=True)


def join(one, other, draws=None):
    """What holds of a value that is one or the other; None if nothing does.

    A free tensor is of rows if it may be taken for them. Where a value of rows and a free one are
    joined, the caller has to see to it that the shapes agree (see `fits`).

    Args:
        one: A verdict.
        other: A verdict.
        draws: Set that the draws are added to that have to move with the examples.
    """
    for verdict in (one, other):
        if isinstance(verdict, Mixed):
            return verdict
    if isinstance(one, ListOf) or isinstance(other, ListOf):
        # What is known of a list that is free is known of each of its elements.
        elements = (v.element if isinstance(v, ListOf) else v for v in (one, other))
        element = (
            None if isinstance(one, Rows) or isinstance(other, Rows) else join(*elements, draws)
        )
        return element if element is None or isinstance(element, Mixed) else ListOf(element)
    if isinstance(one, Free) and isinstance(other, Free):
        return _of_both(one, other)
    if isinstance(one, Free) or isinstance(other, Free):
        free, rows = (one, other) if isinstance(one, Free) else (other, one)
        needed = free.draws_for(rows)
        if needed and draws is not None:
            draws.update(needed)
        return None if needed is None else rows
    return one if one == other else None


def _of_both(one, other):
    """What is known of a free value that is one or the other."""
    seed = one.seed if one.seed == other.seed else None
    if one.even or other.even:
        layouts = (other if one.even else one).layouts
    else:
        both = one.layouts.keys() & other.layouts.keys()
        layouts = {rows: one.layouts[rows] | other.layouts[rows] for rows in both}
    return Free(one.even and other.even, layouts, seed, one.batch_wide | other.batch_wide)


def same(one, other):
    """Whether two verdicts are equal in all that is known, also of what is free."""
    return in_full(one) == in_full(other)


def in_full(verdict):
    """A key of a dict that says all of a verdict, also what is known of a free one."""
    if isinstance(verdict, ListOf):
        return ListOf, in_full(verdict.element)
    if isinstance(verdict, Free):
        layouts = frozenset(verdict.layouts.items())
        return Free, verdict.even, layouts, verdict.seed, verdict.batch_wide
    return verdict


def fits(verdict, shape, examples):
    """Whether a verdict on a tensor of this static shape can be true.

    Args:
        verdict: A verdict.
        shape: Tuple of numbers and None, or None.
        examples: P.
    """
    if not isinstance(verdict, Rows):
        return True
    if shape is None or not 0 <= verdict.axis < len(shape):
        return False
    return shape[verdict.axis] == verdict.size(examples)
