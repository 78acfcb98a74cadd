"""A traced graph as plain data: what the verifier reads, and what a certificate holds.

`tfdpnorm.keras_compat.plain_graphs` makes it of TensorFlow's graphs. Nothing here knows TensorFlow.
"""


class Tensor:
    """A tensor of a graph, output number `index` of the `Operation` `op`.

    Attributes:
        dtype: Name of its type, such as "float32", "variant" or "resource".
        shape: Static shape, a tuple with None for unknown sizes; None without rank.
    """

    __slots__ = ("op", "index", "dtype", "shape")

    def __init__(self, op, index, dtype, shape):
        self.op, self.index, self.dtype, self.shape = op, index, dtype, shape

    @property
    def rank(self):
        """How many axes it has, or None."""
        return None if self.shape is None else len(self.shape)

    @property
    def size(self):
        """How many entries it has, or None."""
        if self.shape is None or None in self.shape:
            return None
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def holds_values(self):
        """Whether it holds values, and not a list, a table or another resource."""
        return self.dtype not in ("variant", "resource")


class Operation:
    """An operation of a graph, of a type such as "MatMul", with its `Tensor`s.

    Attributes:
        attributes: Dict of its attributes that are numbers, flags, words, or lists of these; with
            "value", an array, if it is a small constant of integers or of booleans.
        arguments: Tuple of the names of its arguments, if it has state; else ().
        is_stateful: Whether it may read or write what is not among its inputs and outputs.
        functions: Dict of the `Graph`s that it may call, by attribute; None for an unknown one.
    """

    __slots__ = (
        "type",
        "name",
        "inputs",
        "outputs",
        "attributes",
        "arguments",
        "is_stateful",
        "functions",
    )

    def __init__(self, type, name, attributes=None, arguments=(), is_stateful=False):
        self.type, self.name = type, name
        self.inputs, self.outputs = [], []
        self.attributes = {} if attributes is None else attributes
        self.arguments, self.is_stateful = arguments, is_stateful
        self.functions = {}


class Graph:
    """A graph: operations, in the order in which they were made; lists of `Tensor` in and out."""

    __slots__ = ("operations", "inputs", "outputs")

    def __init__(self, operations, inputs=(), outputs=()):
        self.operations, self.inputs, self.outputs = operations, list(inputs), list(outputs)

    def inside(self):
        """Yields its operations, and those of the functions that they call.

        Raises UnknownGraph at an operation that calls a function whose graph is not known.
        """
        for op in self.operations:
            yield op
            for name in op.functions:
                yield from called(op, name).inside()


class UnknownGraph(LookupError):
    """A function is called whose graph is not known."""


def called(op, name):
    """Returns the `Graph` that an operation calls by an attribute; UnknownGraph if not known."""
    graph = op.functions.get(name)
    if graph is None:
        raise UnknownGraph(f"the graph of the function in {name!r} of {op.name!r} is unknown")
    return graph
