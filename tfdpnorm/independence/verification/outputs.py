"""Proof that each output of a function keeps the examples apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf

from tfdpnorm.independence.verification import rules
from tfdpnorm.independence.verification.in_place import in_place
from tfdpnorm.independence.verification.verdicts import FREE, Mixed, Rows
from tfdpnorm.independence.verification.walk import Walk
from tfdpnorm.keras_compat.graphs import traced

if TYPE_CHECKING:
    from typing import Any


del rules  # imported to register the rules


@dataclass(frozen=True)
class Claim:
    """The claim about one tensor, and the verdict on it.

    Attributes:
        what: What the tensor is, in words.
        per_example: How many entries of the first axis belong to each example.
        verdict: The verdict on it: `Free`, `Rows`, `ListOf` or `Mixed`.
        may_be_free: Whether a tensor that no example changes will do.
    """

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
    """

    claims: tuple
    state_faults: tuple = ()
    operations: int = 0
    broadcast_layers: tuple = ()

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


class Found(NamedTuple):
    """The result of a walk over a graph: the list of verdicts, and the rest as in `Proof`."""

    verdicts: list
    state_faults: tuple
    operations: int

    def proof(self, claims, broadcast_layers=()):
        """The `Proof` with these claims."""
        return Proof(tuple(claims), self.state_faults, self.operations, broadcast_layers)


def prove(function, specs, examples, per_example=1):
    """Proves that each output of a function keeps the examples apart.

    Args:
        function: From tensors to a structure of tensors; it is traced, once.
        specs: Tuple of structures of `tf.TensorSpec` [P, ...] of known shapes, one for each
            argument of `function`: the rows of P examples, one each.
        examples: P.
        per_example: How many entries of the first axis of each output belong to one example.

    Returns:
        `Proof` with a claim for each output.

    Raises:
        ValueError: for specs of other or unknown shapes.
        Exception: whatever `function` raises.
    """
    check_specs(specs, examples)
    return prove_outputs(traced_function(function, specs).graph, examples, per_example=per_example)


def prove_outputs(graph, examples, public=(), per_example=1):
    """As `prove`, for the outputs of a graph; `public` as in `verdicts_of`."""
    found = verdicts_of(graph, examples, public=public)
    return found.proof(Claim(f"output {i}", per_example, v) for i, v in enumerate(found.verdicts))


def prove_state(graph, examples, public=()):
    """Proves only that no state depends on examples, as `prove_outputs`.

    For engines that run each row by itself.
    """
    return verdicts_of(graph, examples, [], public).proof([])


def traced_function(function, specs):
    """Returns the `ConcreteFunction` of a function, traced as Keras traces a step of training.

    Raises:
        RuntimeError: inside a graph: what its tensors depend on is not known.
    """
    if not tf.executing_eagerly():
        raise RuntimeError(
            "The verification was called inside a graph. Call it eagerly, before the function is "
            "traced."
        )
    return traced(function, specs)


def verdicts_of(graph, examples, tensors=None, public=()):
    """Walks a graph whose arguments are the rows of examples.

    Args:
        graph: `FuncGraph`. Free is what it captured of variables, of constants, and of `public`.
        examples: P.
        tensors: The tensors to give verdicts on, of the graph or constant; None for its outputs.
        public: Collection of tensors of the graph outside that depend on no example.

    Returns:
        `Found`.
    """
    public = {id(tensor) for tensor in public}
    captured = {}
    for outside, inside in graph.captures:
        free = not tf.is_symbolic_tensor(outside) or outside.dtype == tf.resource
        captured[id(inside)] = FREE if free or id(outside) in public else _captured(outside)
    tensors = graph.outputs if tensors is None else tensors
    inside = [t for t in tensors if tf.is_symbolic_tensor(t)]
    walk = Walk(examples)
    found = iter(walk.run(graph, [captured.get(id(t), Rows(0)) for t in graph.inputs], inside))
    verdicts = [next(found) if tf.is_symbolic_tensor(t) else FREE for t in tensors]
    shared, is_kept = in_place(graph)
    if shared is not None:
        verdicts = [shared] * len(verdicts)
        walk.faults += [shared] if is_kept else []
    faults = tuple({fault.op_name: fault for fault in walk.faults}.values())
    operations = len(graph.get_operations())
    return Found(verdicts, faults, operations)


def forward_verdicts(graph, examples, tensors):
    """Verdicts on tensors of a graph that is not finished: its inputs are not known as such.

    What depends on one of them is mixed; what is free is free.
    """
    walk = Walk(examples)
    free = [FREE] * len(graph.internal_captures)
    return walk.run(graph, free, tensors, graph.internal_captures)


def _captured(tensor):
    why = "is of the graph outside, where it may depend on examples"
    return Mixed(tensor.op.name, tensor.op.type, "", why)


def check_specs(specs, examples):
    """Rejects specs that are not of so many examples, or not of known shapes."""
    for spec in tf.nest.flatten(specs):
        if not spec.shape.is_fully_defined() or spec.shape[:1] != [examples]:
            raise ValueError(
                f"Expected specs of known shape [{examples}, ...], got {tuple(spec.shape)}. Give "
                "the shapes that the function is trained with, padded."
            )
