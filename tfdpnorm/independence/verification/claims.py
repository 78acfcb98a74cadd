"""What is claimed of a traced graph, and whether it is verified: a pure function of plain data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from tfdpnorm.independence.verification import rules
from tfdpnorm.independence.verification.verdicts import FREE, Mixed, Rows
from tfdpnorm.independence.verification.walk import Walk, may_change_state
from tfdpnorm.plain_graph import UnknownGraph

if TYPE_CHECKING:
    from typing import Any

    from tfdpnorm.plain_graph import Graph, Tensor

del rules  # imported to register the rules


class Asked(NamedTuple):
    """A tensor of which it is claimed that it keeps the examples apart; `what` is it in words.

    Attributes:
        tensor: A `Tensor` of the graph; None for a constant outside of it.
        per_example: How many entries of its first axis belong to one example.
        may_be_free: Whether a tensor that no example changes will do.
        gradient: Number of its gradient among all that is asked: a tensor that no example changes
            will do if that is of rows. None for others.
    """

    what: str
    tensor: Tensor | None
    per_example: int = 1
    may_be_free: bool = True
    gradient: int | None = None


class Question(NamedTuple):
    """A traced graph with what is claimed of it: all that the verifier reads.

    It was traced for P `examples`. `given` are the verdicts on its inputs: `FREE` for what is
    public or a variable, `Rows` for the examples, `Mixed` for what is not known. `asked` is a list
    of `Asked`.
    """

    graph: Graph
    examples: int
    given: list
    asked: list


def verify(question: Question) -> Proof:
    """Verifies the claims of a graph.

    Args:
        question: The graph, and what is claimed of it.

    Returns:
        `Proof` with a claim for each that is asked.
    """
    walk = Walk(question.examples)
    inside = [asked.tensor for asked in question.asked if asked.tensor is not None]
    found = iter(walk.run(question.graph, question.given, inside))
    verdicts = [FREE if asked.tensor is None else next(found) for asked in question.asked]
    shared, is_kept = _in_place(question.graph)
    if shared is not None:
        verdicts = [shared] * len(verdicts)
        walk.faults += [shared] if is_kept else []
    pairs = list(zip(question.asked, verdicts, strict=True))
    claims = [Claim(a.what, a.per_example, v, a.may_be_free) for a, v in pairs]
    for i, asked in enumerate(question.asked):
        if asked.gradient is not None and not claims[asked.gradient].holds:
            claims[i] = replace(claims[i], may_be_free=False)
    faults = tuple({fault.op_name: fault for fault in walk.faults}.values())
    return Proof(
        tuple(claims),
        faults,
        len(question.graph.operations),
        question=question,
        constants_read=frozenset(walk.constants.read),
    )


@dataclass(frozen=True)
class Claim:
    """The claim on a tensor that is `Asked`; the verdict is `Free`, `Rows`, `ListOf` or `Mixed`."""

    what: str
    per_example: int
    verdict: object
    may_be_free: bool = True

    @property
    def holds(self):
        """Whether the claim is verified."""
        if self.verdict == FREE:
            return self.may_be_free
        return self.verdict == Rows(0, self.per_example)

    @property
    def reads_no_example(self):
        """Whether it fails only since the tensor depends on no example."""
        return self.verdict == FREE and not self.may_be_free

    def __str__(self):
        if self.holds:
            return f"{self.what}: verified, {self.verdict}"
        if self.reads_no_example:
            return f"{self.what}: reads no example"
        return f"{self.what}: expected {Rows(0, self.per_example)}, got {self.verdict}"


@dataclass(frozen=True)
class Proof:
    """The result of verifying a function, for the number of examples that it was traced for.

    Attributes:
        claims: Tuple of `Claim`. With a state fault they say nothing of later runs.
        state_faults: Tuple of `Mixed`, where state gets what depends on examples.
        operations: How many operations the graph has, functions that it calls not counted.
        broadcast_layers: Tuple of layers that read no example and whose output is broadcast to all
            examples: the engine has to be told (see `tfdpnorm.gradients.book_keeping`).
        question: The `Question` that was answered.
        constants_read: The `Operation`s of the constants whose values that took.
    """

    claims: tuple
    state_faults: tuple = ()
    operations: int = 0
    broadcast_layers: tuple = ()
    question: Question | None = field(default=None, compare=False, repr=False)
    constants_read: frozenset = field(default=frozenset(), compare=False, repr=False)

    @property
    def holds(self) -> bool:
        """Whether all claims are verified, and no state depends on examples."""
        return all(claim.holds for claim in self.claims) and not self.state_faults

    @property
    def failed(self) -> tuple:
        """Tuple of the claims that are not verified."""
        return tuple(claim for claim in self.claims if not claim.holds)

    @property
    def obstacle(self) -> str | None:
        """The first obstacle to the verification, in words; None without one."""
        for claim in self.failed:
            return str(claim)
        return next(map(str, self.state_faults), None)

    @property
    def couples(self) -> bool:
        """Whether examples are known to meet where the proof stopped first."""
        return self.culprit is not None and self.culprit.is_meeting

    @property
    def culprit(self) -> Any:
        """The `Mixed` of the operation that stopped the proof first; None without one."""
        mixed = [c.verdict for c in self.failed if isinstance(c.verdict, Mixed)]
        return next(iter([*mixed, *self.state_faults]), None)


_IN_PLACE = ("InplaceAdd", "InplaceSub", "InplaceUpdate", "_ParallelConcatUpdate")
# Reading a variable, drawing, and making a tensor have or move state, too, but keep no tensor.
_KEEPS_NONE = ("Empty", "Assert", "Random", "Rng", "Stateful", "Multinomial", "TruncatedNormal")
_WHY = "writes in place, into memory that other operations may read"


def _in_place(graph):
    """Finds operations of a graph that write into their input's memory, as in `tf.nn.ctc_loss`.

    Lemma. A verdict is on the value that an operation gives. Where another operation writes into
    that memory, later readers of it get another value: nothing is known of any tensor of the graph.
    If no operation of it writes state either, its state is what it was before.

    Returns the `Mixed` of the first one, or None, and whether state may keep a tensor that was
    written so.
    """
    try:
        leaves = [op for op in graph.inside() if not op.functions]
    except UnknownGraph:
        return None, False  # which the walk finds as well
    found = next((op for op in leaves if op.type in _IN_PLACE), None)
    if found is None:
        return None, False
    keeps = any(
        may_change_state(op.type, op.is_stateful) and not op.type.startswith(_KEEPS_NONE)
        for op in leaves
    )
    return Mixed(found.name, found.type, found.name.rpartition("/")[0], _WHY), keeps
