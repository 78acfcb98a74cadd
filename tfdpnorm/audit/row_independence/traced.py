"""A function of rows as a graph that can be run again from the same state and random numbers."""

import contextlib
import random
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.walk import sublayers

_GRAPH_SEED = 5
_SEED_NAME = "seed_of_a_probe"

# Autograph is for the code of others, and takes time.
_as_written = tf.autograph.experimental.do_not_convert


class RowsMissing(ValueError):
    """What a function gave has no axis of rows."""


class Traced:
    """`function` for one shape of rows, with the gradients that training would take.

    It is a graph, as in training, and for the sake of the streams of random numbers: legacy random
    ops draw from counters inside of kernels. In a graph they have a seed and kernels of their own,
    whereas eager ones could be repeated only by `tf.random.set_seed`, which starts all streams of
    the process anew, the caller's noise among them.

    Args:
        function: From a structure of tensors [n, ...] to one of [n * k, ...], in which the k rows
            of an example follow each other.
        rows: Structure of arrays [n, ...] of the shapes and types to come.
        variables: Function that returns the variables to take gradients by, besides those by the
            inputs; None for no gradients at all.

    Attributes:
        outputs: Structure of `tf.TensorSpec`, what `function` gives.
        gradient_error: What is wrong with the gradient, if it could not be taken.

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
            # Inside a graph this is the seed of the graph, not that of the process.
            tf.compat.v1.set_random_seed(_GRAPH_SEED)
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
        self.state = State(self._graph)

    def run(self, rows, weights, fresh=False):
        """Returns a `Run` on `rows`; its gradients are of the outputs' sum by `weights`.

        Args:
            rows: Structure of arrays [n, ...].
            weights: [n], one for each row.
            fresh: Whether legacy random ops start anew, from the same numbers each time.
        """
        graph = self._graph
        if fresh:
            # In a function of its own each op has a kernel of its own, and that a new counter.
            graph = tf.function(
                lambda x, weights: self._graph(x, weights), autograph=False
            ).get_concrete_function(self._specs, self._weights)
        x = tf.nest.map_structure(tf.convert_to_tensor, rows)
        found = graph(x, tf.constant(weights, tf.float32))
        values, by_variables, by_inputs = tf.nest.map_structure(np.asarray, found)
        return Run(values, by_variables, by_inputs, self.state.now())

    @_as_written
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

    @_as_written
    def _weighted_sum(self, values, weights):
        """Sum of outputs by the weights [n] of rows and random ones inside of rows.

        The latter keep the gradients of outputs that are tied, such as probabilities, from
        cancelling.
        """
        if self._shapes_without_rows or not any(v.dtype.is_floating for v in values):
            return None
        terms = []
        for number, value in enumerate(v for v in values if v.dtype.is_floating):
            wide = value if value.dtype == tf.float64 else tf.cast(value, tf.float32)
            wide = tf.reshape(wide, [self._count, -1])
            seed = [_GRAPH_SEED, number]
            inside = tf.random.stateless_normal(tf.shape(wide)[1:], seed, dtype=wide.dtype)
            weighted = wide * inside * tf.cast(weights, wide.dtype)[:, tf.newaxis]
            terms.append(tf.cast(tf.reduce_sum(weighted), tf.float64))
        return tf.add_n(terms)

    @_as_written
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
        return [tf.convert_to_tensor(g) for g in by_variables], by_inputs


class Run(NamedTuple):
    """What one run of a `Traced` gave, in NumPy.

    Attributes:
        values: List of [n * k, ...], the outputs.
        by_variables: Gradient of the weighted sum of outputs by the variables, a list.
        by_inputs: The same by the inputs that are floats, list of [n, ...].
        state: List of the variables' values after it.
    """

    values: list
    by_variables: list
    by_inputs: list
    state: list


class State:
    """All variables that a graph reads or writes, wherever they are kept, and how they were.

    Args:
        graph: A `ConcreteFunction`.
    """

    def __init__(self, graph):
        self._variables = {}
        for handle in graph.captured_inputs:
            if handle.dtype == tf.resource and handle._handle_data is not None:
                data = handle._handle_data
                # Tables and the like have handles too, without the type of a value.
                if data.is_set and data.shape_and_type:
                    kind = tf.as_dtype(data.shape_and_type[0].dtype)
                    self._variables[id(handle)] = (handle, kind)
        self._names = {id(v.handle): v.name for v in graph.graph.variables}
        # As long as these are held, whatever writes a variable has to give it a new buffer.
        self._initial = self._read()

    def now(self):
        """List of the values that the variables have."""
        return [np.asarray(value) for value in self._read()]

    def restore(self, let_integers_run=False):
        """Gives the variables back the values they had at first.

        Args:
            let_integers_run: Leave out integers, which states of random generators are.
        """
        found = zip(self._variables.values(), self._initial, self._read(), strict=True)
        for (handle, kind), before, after in found:
            if not (let_integers_run and kind.is_integer) and not same_buffer(
                np.asarray(before), np.asarray(after)
            ):
                tf.raw_ops.AssignVariableOp(resource=handle, value=before)

    @property
    def draws(self):
        """Whether the graph draws random numbers by seeds that `undisturbed` gave to layers."""
        return any(name.startswith(_SEED_NAME) for name in self._names.values())

    def name(self, index):
        """What the variable at `index` of `now()` is called."""
        return [self._names.get(key, "") for key in self._variables][index].split(":")[0]

    def _read(self):
        return [
            tf.raw_ops.ReadVariableOp(resource=handle, dtype=kind)
            for handle, kind in self._variables.values()
        ]


def same_buffer(one, other):
    """Whether two arrays are the same memory; false may be said of some that are."""
    return one.size > 0 and one.shape == other.shape and one.ctypes.data == other.ctypes.data


@contextlib.contextmanager
def undisturbed(*layers):
    """Has random Keras layers repeat themselves, and puts everything back, whatever happens inside.

    That is also Python's and NumPy's random numbers and the lists of added losses. Variables are
    not: see `State`.

    Args:
        *layers: Keras layers that may be run; anything else is left alone.
    """
    found = [
        x
        for layer in layers
        if isinstance(layer, keras.layers.Layer)
        for x in (layer, *sublayers(layer))
    ]
    generators = [x._random_generator for x in found if hasattr(x, "_random_generator")]
    generators = list({id(g): g for g in generators}.values())
    attributes = [dict(vars(g)) for g in generators]
    losses = [(list(x._losses), list(x._eager_losses)) for x in found]
    python, numpy = random.getstate(), np.random.get_state()
    options = tf.config.optimizer.get_experimental_options()
    try:
        for number, generator in enumerate(generators):
            # Streams would be drawn from in any order by the iterations of a loop. Not by
            # setattr(), which would make the variable part of the layer's checkpoints.
            vars(generator).update(
                _rng_type=generator.RNG_STATELESS,
                _seed=tf.Variable(number, trainable=False, name=_SEED_NAME),
                _built=True,
            )
        # Graphs that run a few times are not worth optimising: it takes longer than the runs.
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        yield
    finally:
        tf.config.optimizer.set_experimental_options(
            {"disable_meta_optimizer": options.get("disable_meta_optimizer", False)}
        )
        for generator, before in zip(generators, attributes, strict=True):
            vars(generator).clear()
            vars(generator).update(before)
        random.setstate(python)
        np.random.set_state(numpy)
        for layer, (symbolic, eager) in zip(found, losses, strict=True):
            layer._losses[:], layer._eager_losses[:] = symbolic, eager


def _dense(t):
    if isinstance(t, tf.RaggedTensor):
        return t.to_tensor()
    return tf.sparse.to_dense(t) if isinstance(t, tf.SparseTensor) else t
