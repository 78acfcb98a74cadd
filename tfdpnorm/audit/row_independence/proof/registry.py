"""The registry of rules by type of operation, and what a rule sees of an operation."""

import tensorflow as tf

from tfdpnorm.audit.row_independence.proof.verdicts import Free, Mixed, Rows

_RULES = {}
_OF_MIXED = set()


def rule(*op_types, takes_mixed=False):
    """Decorator that registers a rule for types of operations.

    A rule takes a `Node` and returns the verdict on all outputs, or a list of one for each.

    Args:
        *op_types: Types of operations, such as "MatMul".
        takes_mixed: Whether the rule is asked even if an input is mixed. The others are not:
            everything that touches a mixed tensor is mixed.
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


UNEVEN = "gets free numbers that differ from one example's place to another's"


class Node:
    """One operation, and what is known of its inputs.

    A rule that finds rows has to say of each free input how it lies beside them: `beside` asks
    whether entries that are used for one example each are the same for all; `apart` says that each
    example gets the whole input alike. See `unanswered`.

    Attributes:
        op: The `tf.Operation`.
        verdicts: Tuple of the verdicts on its inputs.
        examples: P.
        walk: The `Walk` over the graph that the operation is in.
        draws: Set of `Draw`, those that a rule's verdict needs to move with the examples.
    """

    def __init__(self, op, verdicts, walk):
        self.op = op
        self.verdicts = verdicts
        self.examples = walk.examples
        self.walk = walk
        self.draws = set()
        self._answered = set()

    @property
    def rows(self):
        """List of pairs (number of the input, its `Rows`), for the inputs of rows."""
        return [(i, v) for i, v in enumerate(self.verdicts) if isinstance(v, Rows)]

    def of_rows(self, i, others=None):
        """The `Rows` of input i if it is of rows, and all others are free; else None.

        Args:
            i: Number of the input.
            others: Numbers of the inputs that must be free; None for all others.
        """
        verdict = self.verdicts[i]
        if others is None:
            others = [k for k in range(len(self.verdicts)) if k != i]
        return verdict if isinstance(verdict, Rows) and self.all_free(others) else None

    def all_free(self, inputs):
        """Whether the inputs of these numbers are free."""
        return all(isinstance(self.verdicts[i], Free) for i in inputs)

    def is_of(self, i, rows):
        """Whether input i is of such rows. A single row is on each axis of a single entry."""
        verdict, shape = self.verdicts[i], self.shape(i)
        if not isinstance(verdict, Rows) or verdict == rows:
            return verdict == rows
        single = verdict.at(0) == rows.at(0) and rows.size(self.examples) == 1
        return single and rows.axis >= 0 and shape is not None and shape[rows.axis] == 1

    def beside(self, i, rows):
        """Whether input i can be taken for such rows: it is of them, or free and the same for all.

        A free input without this axis, or of size 1 on it, has the same entries at all places.

        Args:
            i: Number of the input.
            rows: `Rows` whose axis is that of the input; a negative one stands for none.
        """
        self._answered.add(i)
        verdict, shape = self.verdicts[i], self.shape(i)
        if not isinstance(verdict, Free):
            return self.is_of(i, rows)
        if rows.axis < 0 or (shape is not None and shape[rows.axis] == 1):
            return True
        needed = verdict.draws_for(rows)
        self.draws.update(needed or ())
        return needed is not None

    def apart(self, inputs):
        """Says that these inputs, as far as they are free, are used alike for each example."""
        self._answered.update(inputs)

    def unanswered(self):
        """Numbers of the free inputs with an axis that the examples fit, of which nothing was said.

        Not those that say axes, sizes and the like.
        """
        inputs = [i for i, v in enumerate(self.verdicts) if isinstance(v, Free) and not v.even]
        inputs = [i for i in inputs if i not in self._answered and self._has_axis(i)]
        names = _argument_names(self.op) if inputs else []
        return [i for i in inputs if names[i] not in _SETTINGS]

    def _has_axis(self, i):
        shape = self.shape(i) if holds_values(self.op.inputs[i]) else ()
        return shape is None or any(n is None or n % self.examples == 0 for n in shape)

    def shape(self, i):
        """Static shape of input i, a tuple with None for what is not known; None without rank."""
        return static_shape(self.op.inputs[i])

    def rank(self, i):
        """Rank of input i, or None."""
        return self.op.inputs[i].shape.rank

    def output_shape(self, i=0):
        """Static shape of output i, as `shape`."""
        return static_shape(self.op.outputs[i])

    def constant(self, i):
        """The value of input i as an array, if the graph alone says it; else None."""
        return self.walk.constants.of(self.op.inputs[i])

    def bounds(self, i):
        """The lowest and highest value of each entry of input i, or None (see `Bounds`)."""
        return self.walk.bounds.of(self.op.inputs[i])

    def shifted(self, i):
        """What input i is but for an offset that is known, a `Shifted` or None (see `Offsets`)."""
        return self.walk.offsets.of(self.op.inputs[i])

    def attr(self, name):
        """An attribute of the operation; strings come as str."""
        value = self.op.get_attr(name)
        return value.decode() if isinstance(value, bytes) else value

    def mixed(self, why):
        """The verdict that examples meet here."""
        name = self.walk.path + self.op.name
        return Mixed(name, self.op.type, name.rpartition("/")[0], why)

    def fault(self, why):
        """Notes that state gets what depends on examples."""
        self.walk.faults.append(self.mixed(why))


# Names that TensorFlow gives to arguments that are the same for the whole operation.
_SETTINGS = """
alg algorithm axes axis begin block_shape concat_dim crops default_value depth dim dimension dims
element_shape end fft_length filter_sizes index input_sizes k max_num_elements multiples
num_elements num_segments orig_input_shape output_shape paddings perm reduction_indices shape shift
size size_splits split_dim strides
""".split()


def _argument_names(op):
    """The name of each input's argument, in the definition of the operation."""
    names = []
    for argument in op.op_def.input_arg:
        count = 1
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        names += [argument.name] * count
    return names


def static_shape(tensor):
    """Static shape of a tensor, a tuple with None for what is not known; None without rank."""
    shape = tensor.shape
    return None if shape.rank is None else tuple(shape.as_list())


def holds_values(tensor):
    """Whether a tensor holds values, and not a list, a table or another resource."""
    return tensor.dtype not in (tf.variant, tf.resource)
