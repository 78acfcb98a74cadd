"""Proof that each output of a function keeps the examples apart."""

from dataclasses import dataclass

import tensorflow as tf

from tfdpnorm.audit.row_independence.proof import rules
from tfdpnorm.audit.row_independence.proof.verdicts import FREE, Free, Mixed, Rows
from tfdpnorm.audit.row_independence.proof.walk import Walk

del rules  # imported to register the rules


@dataclass(frozen=True)
class Claim:
    """What is claimed of one tensor, and what is known of it.

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
        """Whether the claim is proved."""
        if isinstance(self.verdict, Free):
            return self.may_be_free
        return self.verdict == Rows(0, self.per_example)

    @property
    def reads_no_example(self):
        """Whether it fails only since the tensor depends on no example."""
        return isinstance(self.verdict, Free) and not self.may_be_free

    def __str__(self):
        if self.holds:
            return f"{self.what}: proved, {self.verdict}"
        if self.reads_no_example:
            return f"{self.what}: reads no example"
        return f"{self.what}: expected {Rows(0, self.per_example)}, got {self.verdict}"


@dataclass(frozen=True)
class Proof:
    """What was proved of a function, for the number of examples that it was traced for.

    Attributes:
        claims: Tuple of `Claim`. With a state fault they say nothing of later runs.
        state_faults: Tuple of `Mixed`, where state gets what depends on examples.
        operations: How many operations the graph has, functions that it calls not counted.
    """

    claims: tuple
    state_faults: tuple = ()
    operations: int = 0

    @property
    def holds(self):
        """Whether all claims are proved, and no state depends on examples."""
        return not self.state_faults and all(claim.holds for claim in self.claims)

    @property
    def failed(self):
        """Tuple of the claims that are not proved."""
        return tuple(claim for claim in self.claims if not claim.holds)

    @property
    def obstacle(self):
        """What stopped the proof first, in words; None if nothing did."""
        for claim in self.failed:
            return str(claim)
        for fault in self.state_faults:
            return str(fault)
        return None

    @property
    def culprit(self):
        """The `Mixed` of the operation that stopped the proof first; None without one."""
        mixed = [c.verdict for c in self.failed if isinstance(c.verdict, Mixed)]
        return next(iter([*mixed, *self.state_faults]), None)


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
    graph = traced_graph(function, specs)
    verdicts, faults = verdicts_of(graph, examples)
    claims = [Claim(f"output {i}", per_example, v) for i, v in enumerate(verdicts)]
    return Proof(tuple(claims), faults, len(graph.get_operations()))


def traced_graph(function, specs):
    """Returns the `FuncGraph` of a function, traced as Keras traces a step of training.

    Raises:
        RuntimeError: inside a graph: what its tensors depend on is not known.
    """
    if not tf.executing_eagerly():
        raise RuntimeError(
            "Expected a proof to be made eagerly, got a call inside a graph. Make it before the "
            "function that is traced."
        )
    return tf.function(function).get_concrete_function(*specs).graph


def verdicts_of(graph, examples):
    """Walks a graph whose arguments are the rows of examples.

    Args:
        graph: `FuncGraph`. What it captured is free.
        examples: P.

    Returns:
        Pair of the verdicts on its outputs, a list, and the state faults, a tuple of `Mixed`.
    """
    captured = {id(tensor) for tensor in graph.internal_captures}
    walk = Walk(examples)
    given = [FREE if id(tensor) in captured else Rows(0) for tensor in graph.inputs]
    verdicts = walk.run(graph, given)
    return verdicts, tuple({fault.op_name: fault for fault in walk.faults}.values())


def check_specs(specs, examples):
    """Refuses specs that are not of so many examples, or not of known shapes."""
    for spec in tf.nest.flatten(specs):
        if not spec.shape.is_fully_defined() or spec.shape[:1] != [examples]:
            raise ValueError(
                f"Expected specs of known shape [{examples}, ...], got {tuple(spec.shape)}. Give "
                "the shapes that the function is trained with, padded."
            )
