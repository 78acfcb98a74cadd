"""Proof that each output of a function keeps the examples apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from tfdpnorm.errors import PrivacyError
from tfdpnorm.independence.changed_state import changed_by
from tfdpnorm.independence.verification.claims import Asked, Question, verify
from tfdpnorm.independence.verification.verdicts import FREE, Mixed, Rows
from tfdpnorm.independence.verification.walk import Walk
from tfdpnorm.keras_compat.graphs import traced
from tfdpnorm.keras_compat.plain_graphs import plain_graph

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def prove(function, specs, examples, per_example=1):
    """Proves that each output of a function keeps the examples apart; it is traced, once.

    `specs` has for each argument a structure of `tf.TensorSpec` [P, ...] of known shapes, the rows
    of P `examples`, one each. `per_example` entries of the first axis of each output belong to one
    example. The `Proof` has a claim for each output.
    """
    check_specs(specs, examples)
    return prove_outputs(traced_function(function, specs).graph, examples, per_example=per_example)


def prove_outputs(graph, examples, public=(), per_example=1):
    """As `prove`, for the outputs of a graph; `public` as in `question_of`."""
    asked = [Asked(f"output {i}", t, per_example) for i, t in enumerate(graph.outputs)]
    return verify(question_of(graph, examples, asked, public))


def prove_state(graph, examples, public=()):
    """Proves only that no state depends on examples, for engines that run each row by itself."""
    return verify(question_of(graph, examples, [], public))


def traced_function(function, specs):
    """Returns the `ConcreteFunction` of a function, traced as Keras traces a step of training.

    Not inside a graph, where it is unknown what its tensors depend on.
    """
    if not tf.executing_eagerly():
        raise RuntimeError(
            "The verification was called inside a graph. Call it eagerly, before the function is "
            "traced."
        )
    return traced(function, specs)


def question_of(graph, examples, asked, public=()):
    """Returns the `Question` of a `FuncGraph` whose arguments are the rows of examples.

    Free is what it captured of variables, of constants, and of `public`, tensors of the graph
    outside that depend on no example. `asked` has tensors of TensorFlow, of the graph or constant.
    """
    public = {id(tensor) for tensor in public}
    captured = {}
    for outside, inside in graph.captures:
        free = not tf.is_symbolic_tensor(outside) or outside.dtype == tf.resource
        captured[id(inside)] = FREE if free or id(outside) in public else _captured(outside)
    plain = plain_graph(graph)
    asked = [
        a._replace(tensor=plain.tensor(a.tensor) if tf.is_symbolic_tensor(a.tensor) else None)
        for a in asked
    ]
    given = [captured.get(id(t), Rows(0)) for t in graph.inputs]
    return Question(plain.graph, examples, given, asked)


def forward_verdicts(graph, examples, tensors):
    """Verdicts on tensors of a graph that is not finished: its inputs are not known as such.

    What depends on one of them is mixed; what is free is free.
    """
    plain, captures = plain_graph(graph), graph.internal_captures
    plain.graph.inputs = [plain.tensor(t) for t in captures]
    tensors = [plain.tensor(t) for t in tensors]
    return Walk(examples).run(plain.graph, [FREE] * len(captures), tensors)


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


def rows_apart(function: Callable, x: Any, batch_size: int) -> int:
    """Returns how many rows may be run together so that none changes the outputs of another.

    Args:
        function: From a structure of [rows, ...] to outputs of [rows, ...], in inference.
        x: Structure of arrays [N, ...], which are run `batch_size` at a time, and then the rest.
        batch_size: How many are wanted.

    Returns:
        `batch_size` if that is verified for the graph for so many rows; otherwise 1.

    Raises:
        ValueError: if the function keeps something of the rows before.
    """
    count = len(tf.nest.flatten(x)[0])
    for size in sorted({min(batch_size, count), count % batch_size} - {0}, reverse=True):
        specs = tf.nest.map_structure(
            lambda a, size=size: tf.TensorSpec([size, *a.shape[1:]], a.dtype), x
        )
        graph = traced_function(function, (specs,)).graph
        proof = prove_outputs(graph, size)
        # A count of the calls, too: rows that stand in a fixed order may not read their number.
        kept = [*proof.state_faults, *_written(graph)]
        if kept:
            raise PrivacyError(
                "The model keeps a value from earlier rows, on which later predictions depend: "
                f"{kept[0]}. Remove that layer."
            )
        if not proof.holds:
            return 1
    return batch_size


def _written(graph):
    """Descriptions of the operations that give variables new values, those that draw aside."""
    changes = [op for op, _ in changed_by(graph.get_operations())]
    return [f"{op.type} {op.name!r}" for op in changes if not op.type.startswith(("Rng", "State"))]
