"""The walk over a traced graph that gives each tensor its verdict."""

from tfdpnorm.independence.verification.bounds import Bounds
from tfdpnorm.independence.verification.constants import Constants
from tfdpnorm.independence.verification.registry import Node, rule_of, takes_mixed
from tfdpnorm.independence.verification.verdicts import (
    FREE,
    ListOf,
    Mixed,
    Rows,
    fits,
    join,
)
from tfdpnorm.plain_graph import UnknownGraph, called

# Stateful by name: they read, draw, or end the run. Whether they are run changes nothing later.
_HARMLESS = (
    "Assert",
    "CheckNumerics",
    "LookupTableFindV2",
    "LookupTableSizeV2",
    "Print",
    "PrintV2",
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "VarHandleOp",
    "VarIsInitializedOp",
    "VariableShape",
)
# Their graphs have circles; TensorFlow 2 makes none of them.
_OF_VERSION_1 = ("Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case")
_CALLS += ("StatelessCase", "While", "StatelessWhile")


class Walk:
    """The verdicts on the tensors of one graph, and on those of the functions that it calls.

    Args:
        examples: P, for how many examples the graph was traced.
        faults: List that state faults are added to.
        path: Prefix of the names of operations: that of the operations that call the function.
        constants: `Constants` of the graph.
        memory: Dict that all walks of one proof share: what functions gave for which inputs.
    """

    def __init__(self, examples, faults=None, path="", constants=None, memory=None):
        self.examples = examples
        self.faults = [] if faults is None else faults
        self.path = path
        self.constants = constants or Constants()
        self.bounds = Bounds(self.constants)
        self._memory = {} if memory is None else memory
        self._verdicts = {}

    def run(self, graph, verdicts, tensors=None):
        """Gives tensors of `graph` their verdicts, and finds all state faults.

        `verdicts` are those of its inputs, in order. Returns a list of those on `tensors`, None for
        its outputs.
        """
        tensors = graph.outputs if tensors is None else tensors
        for tensor, verdict in zip(graph.inputs, verdicts, strict=True):
            node = Node(tensor.op, (), self)
            self._verdicts[id(tensor)] = self._checked(node, tensor, verdict)
        for op in graph.operations:
            # What has no state and leads to no tensor that is asked for makes no difference.
            if op.is_stateful or op.functions:
                self._visit(op)
        for tensor in tensors:
            self._visit(tensor.op)
        return [self.verdict(tensor) for tensor in tensors]

    def verdict(self, tensor):
        """The verdict on a tensor of the graph that was walked."""
        return self._verdicts[id(tensor)]

    def call(self, op, name, verdicts, constants):
        """The verdicts on what a function gives, and its values as far as they are constant.

        `name` is the attribute of `op` that names the function; `verdicts` and `constants`, arrays
        or None, are those of its inputs. Returns two lists with an entry for each output: its
        verdict; its value, an array, or None. Raises `UnknownGraph` if the function is not known.
        """
        graph = called(op, name)
        key = id(graph), tuple(verdicts), tuple(_key(c) for c in constants)
        if key not in self._memory:
            given = zip(graph.inputs, constants, strict=True)
            values = {id(t): c for t, c in given if c is not None}
            known = Constants(values, self.constants.read)
            path = f"{self.path}{op.name}/"
            inner = Walk(self.examples, self.faults, path, known, self._memory)
            found = inner.run(graph, verdicts)
            self._memory[key] = found, [known.of(t) for t in graph.outputs]
        return self._memory[key]

    def joined(self, op, index, one, other):
        """The verdict on output `index` of `op`, whose value has one of two verdicts."""
        found = join(one, other)
        if found is not None and (
            one == other or fits(found, op.outputs[index].shape, self.examples)
        ):
            return found
        shape = op.outputs[index].shape
        return Node(op, (), self).mixed(f"is {one} or {other}, in shape {shape}")

    def writes(self, op, names):
        """Types of operations in functions that write state; all inside them included."""
        found = []
        for name in names:
            for inner in called(op, name).operations:
                if inner.type in _CALLS:
                    found += self.writes(inner, inner.functions)
                elif may_change_state(inner.type, inner.is_stateful):
                    found.append(inner.type)
        return found

    def _visit(self, op):
        if op.outputs and all(id(tensor) in self._verdicts for tensor in op.outputs):
            return  # an input of the graph
        waiting = [op]
        while waiting:
            op = waiting[-1]
            if op.type in _OF_VERSION_1:
                mixed = Node(op, (), self).mixed("is control flow of TensorFlow 1")
                self._verdicts.update((id(tensor), mixed) for tensor in op.outputs)
                waiting.pop()
                continue
            missing = [x.op for x in op.inputs if id(x) not in self._verdicts]
            if missing:
                # Inputs come before, but for operations that were rewired after they were made.
                if len(waiting) > 10_000:
                    raise RecursionError(f"the graph has a circle at {op.name!r}")
                waiting.extend(missing)
                continue
            waiting.pop()
            if not op.outputs or id(op.outputs[0]) not in self._verdicts:
                self._give(op)

    def _give(self, op):
        node = Node(op, tuple(self._verdicts[id(x)] for x in op.inputs), self)
        found = self._of_outputs(node)
        if not isinstance(found, (list, tuple)):
            found = [found] * len(op.outputs)
        for tensor, verdict in zip(op.outputs, found, strict=True):
            self._verdicts[id(tensor)] = self._checked(node, tensor, verdict)

    def _of_outputs(self, node):
        op = node.op
        if op.type == "Placeholder":
            return node.mixed("is no input of the graph")
        rule = rule_of(op.type)
        free = node.all_free(range(len(node.verdicts)))
        hidden = op.is_stateful or op.functions
        if free and not hidden:
            return FREE
        if hidden and rule is None:
            if not free:
                node.fault("gets values that depend on examples, and may keep them")
            return node.mixed("has state or calls functions, and no rule is known for it")
        culprit = next((v for v in node.verdicts if isinstance(v, Mixed)), None)
        if culprit is not None and not takes_mixed(op.type):
            return culprit
        if rule is None:
            return node.mixed("no rule is known for this operation")
        try:
            return rule(node)
        except UnknownGraph as error:
            node.fault("calls a function whose graph is not known")
            return node.mixed(str(error))
        except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as error:
            # A graph that the rule's author did not think of. Nothing is claimed.
            return node.mixed(f"its rule failed: {type(error).__name__}: {error}")

    def _checked(self, node, tensor, verdict):
        shape = tensor.shape
        if shape is not None and 0 in shape and tensor.holds_values:
            return FREE
        if isinstance(verdict, Mixed) and self.bounds.decide(tensor):
            return FREE  # such as a size that is clipped from above and below to one number
        if isinstance(verdict, Rows) and shape is not None:
            known = 0 <= verdict.axis < len(shape)
            size = shape[verdict.axis] if known else -1
            # One example in an axis of size 1 may have been broadcast, which only shapes show.
            if size != verdict.size(node.examples) and (size is not None or node.examples == 1):
                return node.mixed(f"shape {list(shape)} does not have {verdict}")
        if isinstance(verdict, Rows) and not tensor.holds_values:
            return node.mixed("is no tensor of numbers")
        if isinstance(verdict, ListOf) and tensor.holds_values:
            return node.mixed("is no list")
        return verdict


def _key(value):
    """An array, or None, as a key of a dict."""
    return None if value is None else (value.dtype.str, value.shape, value.tobytes())


def may_change_state(op_type, is_stateful):
    """Whether running operations of a type may change what later ones find."""
    return is_stateful and op_type not in _HARMLESS
