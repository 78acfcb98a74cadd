"""A function of rows as a graph that can be run again from the same state and random numbers."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfdpnorm.audit.row_independence.contents import elements, operation_types
from tfdpnorm.audit.row_independence.state import State
from tfdpnorm.dtypes import widened
from tfdpnorm.keras_compat.graphs import as_written, seed_graph

_GRAPH_SEED = 5


class RowsMissing(ValueError):
    """The outputs of a function have no axis of rows."""


class Traced:
    """`function` for one shape of rows, with the gradients that training would take.

    A graph, for two reasons: training runs one too, and legacy random ops draw from counters inside
    of kernels. In a graph these ops have a seed and kernels of their own. Eagerly only
    `tf.random.set_seed` could repeat them, which restarts all streams of the process, the caller's
    noise among them.

    Args:
        function: From a structure of tensors [n, ...] to one of [n * k, ...], in which the k rows
            of an example follow each other.
        rows: Structure of arrays [n, ...] of the shapes and types to come.
        variables: Function that returns the variables to take gradients by, besides those by the
            inputs; None for no gradients at all.

    Attributes:
        outputs: Structure of `tf.TensorSpec`, what `function` gives.
        gradient_error: The exception, if the gradient could not be taken; else None.
        types: Set of the types of operation in the graph.
        elements_of_a_row: How many floats the graph's tensors have, for each row.

    Raises:
        RowsMissing: for outputs that are not rows.
        Exception: whatever `function` raises.
    """

    def __init__(self, function, rows, variables=None):
        self._specs = tf.nest.map_structure(
            lambda a: tf.TensorSpec(a.shape, tf.as_dtype(a.dtype)), rows
        )
        self._count = len(tf.nest.flatten(rows)[0])
        self._weights = tf.TensorSpec([self._count])
        self._shapes_without_rows = []
        self.outputs = self.gradient_error = None

        def values_and_gradients(x, weights):
            seed_graph(_GRAPH_SEED)
            inputs = [t for t in tf.nest.flatten(x) if t.dtype.is_floating and self._watches]
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                values = self._values(function(x))
                total = self._weighted_sum(values, weights)
            return values, *self._gradients(tape, total, variables, inputs)

        # Ops without a gradient, such as those on images, may stand between inputs and variables.
        for self._watches in (True, False):
            self.gradient_error = None
            self._graph = tf.function(values_and_gradients).get_concrete_function(
                self._specs, self._weights
            )
            if self.gradient_error is None:
                break
        if self._shapes_without_rows:
            raise RowsMissing(f"shapes {self._shapes_without_rows} from {self._count} rows")
        self.types = operation_types(self._graph.graph)
        self.elements_of_a_row = elements(self._graph.graph) // self._count
        self.state = State(self._graph)

    def run(self, rows, weights, fresh=False):
        """Returns a `Run` on `rows`; its gradients are of the outputs' sum by `weights`.

        Args:
            rows: Structure of arrays [n, ...].
            weights: [n], one for each row.
            fresh: Whether legacy random ops restart, from the same numbers each time.
        """
        graph = self._graph
        if fresh:
            # In a new function each op has a new kernel, and each kernel a new counter.
            graph = tf.function(
                lambda x, weights: self._graph(x, weights), autograph=False
            ).get_concrete_function(self._specs, self._weights)
        x = tf.nest.map_structure(tf.convert_to_tensor, rows)
        found = graph(x, tf.constant(weights, tf.float32))
        values, by_variables, by_inputs = tf.nest.map_structure(np.asarray, found)
        return Run(values, by_variables, by_inputs, self.state.now())

    def values_in_turn(self, rows, times):
        """Yields the outputs of run after run on the same rows, by one random number after another.

        The numbers begin anew with each call of this, so that two calls draw the same ones. What
        runs leave in variables is kept until the next run only where it is of integers.

        Args:
            rows: Structure of arrays [n, ...].
            times: How many runs.
        """
        everyone = tf.ones([self._count])
        graph = tf.function(lambda x: self._graph(x, everyone)[0], autograph=False)
        x = tf.nest.map_structure(tf.convert_to_tensor, rows)
        self.state.restore()
        for step in range(times):
            self.state.restore(let_integers_run=True)
            self.state.reseed(step)
            yield [np.asarray(value) for value in graph(x)]

    @as_written
    def _values(self, outputs):
        dense = tf.nest.map_structure(lambda t: tf.convert_to_tensor(_dense(t)), outputs)
        self.outputs = tf.nest.map_structure(tf.TensorSpec.from_tensor, dense)
        values = tf.nest.flatten(dense)
        self._shapes_without_rows = [
            tuple(v.shape)
            for v in values
            if v.shape.rank == 0 or v.shape[0] == 0 or (v.shape[0] or 0) % self._count
        ]
        return values

    @as_written
    def _weighted_sum(self, values, weights):
        """Sum of outputs, weighted by `weights` [n] over rows and at random within rows.

        Without the random weights the gradients of outputs that are tied, such as probabilities,
        would cancel.
        """
        if self._shapes_without_rows or not any(v.dtype.is_floating for v in values):
            return None
        terms = []
        for number, value in enumerate(v for v in values if v.dtype.is_floating):
            wide = tf.reshape(widened(value), [self._count, -1])
            seed = [_GRAPH_SEED, number]
            inside = tf.random.stateless_normal(tf.shape(wide)[1:], seed, dtype=wide.dtype)
            weighted = wide * inside * tf.cast(weights, wide.dtype)[:, tf.newaxis]
            terms.append(tf.cast(tf.reduce_sum(weighted), tf.float64))
        return tf.add_n(terms)

    @as_written
    def _gradients(self, tape, total, variables, inputs):
        if total is None or variables is None:
            return [], []
        try:
            by_variables, by_inputs = tape.gradient(
                total, [list(variables()), inputs], unconnected_gradients="zero"
            )
        except LookupError as error:  # an op that has none
            self.gradient_error = error
            return [], []
        return tf.nest.map_structure(tf.convert_to_tensor, [by_variables, by_inputs])


class Run(NamedTuple):
    """What one run of a `Traced` gave, as NumPy arrays.

    Attributes:
        values: List of [n * k, ...], the outputs.
        by_variables: Gradient of the weighted sum of outputs by the variables, a list.
        by_inputs: Its gradient by the inputs that are floats, list of [n, ...].
        state: List of the variables' values after it.
    """

    values: list
    by_variables: list
    by_inputs: list
    state: list


def _dense(t):
    if isinstance(t, tf.RaggedTensor):
        return t.to_tensor()
    return tf.sparse.to_dense(t) if isinstance(t, tf.SparseTensor) else t
