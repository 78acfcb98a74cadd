"""Graphs made by hand, without TensorFlow: an operation is a line."""

import numpy as np

from tfdpnorm.independence.verification.claims import Asked, Question, verify
from tfdpnorm.independence.verification.verdicts import FREE, Rows
from tfdpnorm.plain_graph import Graph, Operation, Tensor

P = 3
ROWS = Rows(0)


class Made:
    """A graph to add operations to.

    Attributes:
        graph: The `Graph`.
        given: The verdicts on its inputs.
    """

    def __init__(self):
        self.graph, self.given = Graph([]), []

    def op(self, kind, *inputs, shapes=((P, 4),), dtype="float32", functions=(), **attributes):
        """Adds an operation; returns its outputs, or its output if there is one.

        Args:
            kind: Its type; with a "!" at its end if it has state.
            *inputs: Its inputs.
            shapes: Those of its outputs.
            dtype: That of its outputs.
            functions: Pairs of an attribute and the `Graph` that it names.
            **attributes: Its other attributes.
        """
        name = f"{kind.rstrip('!')}_{len(self.graph.operations)}"
        made = Operation(kind.rstrip("!"), name, attributes, is_stateful=kind.endswith("!"))
        made.inputs = list(inputs)
        made.outputs = [Tensor(made, i, dtype, shape) for i, shape in enumerate(shapes)]
        made.functions = dict(functions)
        self.graph.operations.append(made)
        return made.outputs[0] if len(shapes) == 1 else made.outputs

    def input(self, verdict=ROWS, shape=(P, 4), dtype="float32"):
        """Adds an input."""
        tensor = self.op("Placeholder", shapes=(shape,), dtype=dtype)
        self.graph.inputs.append(tensor)
        self.given.append(verdict)
        return tensor

    def constant(self, value, dtype="int32"):
        """Adds a constant."""
        value = np.asarray(value, dtype)
        return self.op("Const", shapes=(value.shape,), dtype=dtype, value=value)

    def returns(self, *outputs):
        """The graph, with these outputs: a function for others to call."""
        self.graph.outputs = list(outputs)
        return self.graph

    def asked(self, *tensors, examples=P):
        """The `Proof` of one entry for each example of each tensor."""
        asked = [Asked(f"tensor {i}", t) for i, t in enumerate(tensors)]
        return verify(Question(self.graph, examples, self.given, asked))

    def verdict(self, tensor, examples=P):
        """The verdict on a tensor."""
        return self.asked(tensor, examples=examples).claims[0].verdict

    def faults(self, *tensors):
        """Types of the operations at which state gets what depends on examples."""
        return [fault.op_type for fault in self.asked(*tensors).state_faults]


def function(body, *shapes, dtype="float32"):
    """The `Graph` of a function: `body` gets a `Made` and its inputs, and returns its outputs."""
    made = Made()
    inputs = [made.input(FREE, shape, dtype) for shape in shapes]
    outputs = body(made, *inputs)
    return made.returns(*(outputs if isinstance(outputs, list | tuple) else [outputs]))
