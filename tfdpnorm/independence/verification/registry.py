"""The registry of rules by type of operation, and what a rule sees of an operation."""

from tfdpnorm.independence.verification.verdicts import FREE, Mixed, Rows

_RULES = {}
_OF_MIXED = set()


def rule(*op_types, takes_mixed=False):
    """Decorator that registers a rule for types of operations, such as "MatMul".

    A rule takes a `Node` and returns the verdict on all outputs, or a list of one for each. With
    `takes_mixed` it is asked even if an input is mixed. The others are not: everything that touches
    a mixed tensor is mixed.
    """

    def add(function):
        for op_type in op_types:
            if op_type in _RULES:
                raise ValueError(f"Expected one rule for {op_type!r}, got two. Remove one.")
            _RULES[op_type] = function
            if takes_mixed:
                _OF_MIXED.add(op_type)
        return function

    return add


def rule_of(op_type):
    """Returns the rule for a type of operation, or None."""
    return _RULES.get(op_type)


def takes_mixed(op_type):
    """Whether the rule of a type of operation is asked even if an input is mixed."""
    return op_type in _OF_MIXED


def supported():
    """Returns the sorted types of operations that have a rule."""
    return sorted(_RULES)


class Node:
    """One operation of a graph that is walked, and the verdicts on its inputs; P is `examples`."""

    def __init__(self, op, verdicts, walk):
        self.op = op
        self.verdicts = verdicts
        self.examples = walk.examples
        self.walk = walk

    @property
    def rows(self):
        """List of pairs (number of the input, its `Rows`), for the inputs of rows."""
        return [(i, v) for i, v in enumerate(self.verdicts) if isinstance(v, Rows)]

    def of_rows(self, i):
        """The `Rows` of input i if it is of rows, and all others are free; else None."""
        verdict = self.verdicts[i]
        others = [k for k in range(len(self.verdicts)) if k != i]
        return verdict if isinstance(verdict, Rows) and self.all_free(others) else None

    def all_free(self, inputs):
        """Whether the inputs of these numbers are free."""
        return all(self.verdicts[i] == FREE for i in inputs)

    def is_of(self, i, rows):
        """Whether input i is of such rows; a free one is. A single row is on each axis of one."""
        verdict, shape = self.verdicts[i], self.shape(i)
        if verdict in (FREE, rows):
            return True
        single = (
            isinstance(verdict, Rows)
            and verdict.at(0) == rows.at(0)
            and rows.size(self.examples) == 1
        )
        return single and rows.axis >= 0 and shape is not None and shape[rows.axis] == 1

    def shape(self, i):
        """Static shape of input i, a tuple with None for unknown sizes; None without rank."""
        return self.op.inputs[i].shape

    def rank(self, i):
        """Rank of input i, or None."""
        return self.op.inputs[i].rank

    def output_shape(self, i=0):
        """Static shape of output i, as `shape`."""
        return self.op.outputs[i].shape

    def constant(self, i):
        """The value of input i as an array, if the graph alone says it; else None."""
        return self.walk.constants.of(self.op.inputs[i])

    def bounds(self, i):
        """The lowest and highest value of each entry of input i, or None (see `Bounds`)."""
        return self.walk.bounds.of(self.op.inputs[i])

    def attr(self, name):
        """An attribute of the operation."""
        return self.op.attributes[name]

    def mixed(self, why, is_meeting=False):
        """The verdict that examples are not known to be apart, or that they meet."""
        name = self.walk.path + self.op.name
        return Mixed(name, self.op.type, name.rpartition("/")[0], why, is_meeting)

    def meeting(self, why):
        """The verdict that examples meet here."""
        return self.mixed(why, is_meeting=True)

    def fault(self, why):
        """Notes that state gets what depends on examples."""
        self.walk.faults.append(self.mixed(why))
