"""A file with the graph that was verified and what is claimed of it: anyone can verify it again.

It holds operations, attributes and shapes, and of the constants those alone that a rule read, such
as axes and sizes: no weights and no data. No TensorFlow is needed to read it.
"""

import gzip
import hashlib
import json

import numpy as np

from tfdpnorm.independence.verification.claims import Asked, Question
from tfdpnorm.independence.verification.verdicts import FREE, Mixed, Rows
from tfdpnorm.plain_graph import Graph, Operation, Tensor

_FORMAT = 1
_GIVEN = {"free": FREE, "examples": Rows(0)}


class CertificateError(ValueError):
    """A certificate cannot be read."""


def name_of(data):
    """Returns the name of the file of a certificate: it begins with its SHA-256."""
    return f"verified-{digest(data)[:12]}.json.gz"


def digest(data):
    """Returns the SHA-256 of a certificate, as text."""
    return hashlib.sha256(data).hexdigest()


def encode(question, read):
    """Returns the bytes of a certificate; `read` are the constants that the verification read."""
    graphs = _Graphs({id(op) for op in read})
    whole = graphs.number_of(question.graph)
    content = {
        "format": _FORMAT,
        "examples": question.examples,
        "graph": whole,
        "given": [_given(verdict) for verdict in question.given],
        "asked": [
            [a.what, graphs.place(whole, a.tensor), a.per_example, a.may_be_free, a.gradient]
            for a in question.asked
        ],
        "graphs": graphs.encoded,
    }
    return gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 6, mtime=0)


def decode(data):
    """Returns the `Question` of the bytes of a certificate, or raises a `CertificateError`."""
    try:
        content = json.loads(gzip.decompress(data))
        if content["format"] != _FORMAT:
            raise CertificateError(
                f"The certificate has the format {content['format']}, and this tfdpnorm reads "
                f"{_FORMAT}. Check it with the version that wrote it, which its run's ledger names."
            )
        graphs = []
        for encoded in content["graphs"]:  # those that are called come before
            graphs.append(_graph(encoded, graphs))
        graph = graphs[content["graph"]]
        asked = [
            Asked(what, None if place is None else _tensor(graph, place), *others)
            for what, place, *others in content["asked"]
        ]
        given = [_GIVEN[v] if isinstance(v, str) else Mixed(*v) for v in content["given"]]
        return Question(graph, content["examples"], given, asked)
    except CertificateError:
        raise
    except Exception as error:
        raise CertificateError(
            f"The file is no certificate: {type(error).__name__}: {error}. Take the file that the "
            "run wrote."
        ) from error


def _given(verdict):
    if isinstance(verdict, Mixed):
        return [verdict.op_name, verdict.op_type, verdict.scope, verdict.why]
    return next(word for word, known in _GIVEN.items() if known == verdict)


class _Graphs:
    """Encodes each graph once, after those that it calls."""

    def __init__(self, read):
        self.encoded = []
        self._read, self._numbers, self._places = read, {}, []

    def number_of(self, graph):
        if id(graph) not in self._numbers:
            operations, places = [], {}
            for i, op in enumerate(graph.operations):
                places[id(op)] = i
            for op in graph.operations:
                operations.append(self._operation(op, places))
            self._places.append(places)
            self.encoded.append(
                {
                    "operations": operations,
                    "inputs": [_place(t, places) for t in graph.inputs],
                    "outputs": [_place(t, places) for t in graph.outputs],
                }
            )
            self._numbers[id(graph)] = len(self.encoded) - 1
        return self._numbers[id(graph)]

    def place(self, number, tensor):
        return None if tensor is None else _place(tensor, self._places[number])

    def _operation(self, op, places):
        attributes = {k: v for k, v in op.attributes.items() if k != "value"}
        value = op.attributes.get("value") if id(op) in self._read else None
        functions = {
            name: None if graph is None else self.number_of(graph)
            for name, graph in op.functions.items()
        }
        return [
            op.type,
            op.name,
            [_place(t, places) for t in op.inputs],
            [[t.dtype, t.shape] for t in op.outputs],
            attributes,
            op.arguments,
            op.is_stateful,
            functions,
            None if value is None else [value.dtype.name, value.shape, value.ravel().tolist()],
        ]


def _place(tensor, places):
    return [places[id(tensor.op)], tensor.index]


def _graph(encoded, graphs):
    operations = []
    for kind, name, _, outputs, attributes, arguments, stateful, functions, value in encoded[
        "operations"
    ]:
        op = Operation(kind, name, attributes, tuple(arguments), bool(stateful))
        op.outputs = [
            Tensor(op, i, dtype, None if shape is None else tuple(shape))
            for i, (dtype, shape) in enumerate(outputs)
        ]
        op.functions = {
            attribute: None if number is None else graphs[number]
            for attribute, number in functions.items()
        }
        if value is not None:
            dtype, shape, entries = value
            op.attributes["value"] = np.asarray(entries, dtype).reshape(shape)
        operations.append(op)
    graph = Graph(operations)
    for op, fields in zip(operations, encoded["operations"], strict=True):
        op.inputs = [_tensor(graph, place) for place in fields[2]]
    graph.inputs = [_tensor(graph, place) for place in encoded["inputs"]]
    graph.outputs = [_tensor(graph, place) for place in encoded["outputs"]]
    return graph


def _tensor(graph, place):
    operation, output = place
    if min(operation, output) < 0:
        raise IndexError(place)
    return graph.operations[operation].outputs[output]
