"""The variables that a graph reads or writes, put back to what they were."""

import numpy as np
import tensorflow as tf

from tfdpnorm.audit.row_independence.compare import same_buffer
from tfdpnorm.audit.row_independence.undisturbed import SEED_NAME
from tfdpnorm.keras_compat.graphs import captured_variables


class State:
    """All variables that a graph reads or writes, wherever they are kept, and their first values.

    Args:
        graph: A `ConcreteFunction`.
    """

    def __init__(self, graph):
        self._variables = captured_variables(graph)
        self._names = {id(v.handle): v.name for v in graph.graph.variables}
        # While these exist, whatever writes a variable has to give it a new buffer.
        self._initial = self._read()

    def now(self):
        """List of the values that the variables have."""
        return [np.asarray(value) for value in self._read()]

    def restore(self, let_integers_run=False):
        """Gives the variables back their first values.

        Args:
            let_integers_run: Leave out integers, such as the states of random generators.
        """
        found = zip(self._variables, self._initial, self._read(), strict=True)
        for (handle, kind), before, after in found:
            if not (let_integers_run and kind.is_integer) and not same_buffer(
                np.asarray(before), np.asarray(after)
            ):
                tf.raw_ops.AssignVariableOp(resource=handle, value=before)

    def counters(self, after):
        """Numbers of the variables that a run changed and that hold one number each.

        Args:
            after: What `now()` gave after the run.
        """
        return [
            index
            for index, (before, value) in enumerate(zip(self._initial, after, strict=True))
            if value.size == 1 and value.dtype.kind in "iuf" and np.any(np.asarray(before) != value)
        ]

    def put(self, indices, number):
        """Gives the variables of these indices of `now()` a number."""
        for index in indices:
            handle, kind = self._variables[index]
            value = tf.cast(tf.fill(tf.shape(self._initial[index]), number), kind)
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)

    def reseed(self, step):
        """Gives the seeds that `undisturbed` gave to layers other values, the same in each step."""
        for index, (handle, kind) in enumerate(self._variables):
            if self.name(index).startswith(SEED_NAME):
                value = self._initial[index] + tf.cast(1009 * step, kind)
                tf.raw_ops.AssignVariableOp(resource=handle, value=value)

    @property
    def draws(self):
        """Whether the graph draws random numbers by seeds that `undisturbed` gave to layers."""
        return any(name.startswith(SEED_NAME) for name in self._names.values())

    def name(self, index):
        """What the variable at `index` of `now()` is called."""
        return self._names.get(id(self._variables[index][0]), "").split(":")[0]

    def _read(self):
        return [
            tf.raw_ops.ReadVariableOp(resource=handle, dtype=kind)
            for handle, kind in self._variables
        ]
