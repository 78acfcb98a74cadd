"""A randomized check of per-example independence: a function is run on synthetic examples.

For steps that cannot be verified from their graph, and with `validate="probe"` only. **To pass it
is no proof.** It meets a few synthetic examples (ordinary, far away, copied, empty, not finite), in
one batch of one size, and with one sequence of random numbers. It does not see what examples do
beyond a trigger that none of these meets, in another batch, by chance, from a certain call on,
below the rounding of float32, or in state outside of variables. The proof is
`tfdpnorm.independence.prove_training`.
"""

import contextlib
import re
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfdpnorm.dtypes import widened
from tfdpnorm.independence.examples import chosen, splits
from tfdpnorm.independence.undisturbed import undisturbed
from tfdpnorm.keras_compat.functions import leaf_operations
from tfdpnorm.keras_compat.graphs import as_written, captured_variables, seed_graph, traced

_GRAPH_SEED = 5
# How far results of the same sums, and of sums in another order, differ, in last digits.
_SAME, _OTHER_ORDER, _MOST = 8, 8192, 0.25
_LAST_DIGIT = {tf.bfloat16: 2.0**-7, tf.float16: 2.0**-10}
_FLOAT32 = 2.0**-23
_SCALES = (1.0, 1e-6, 1e6)  # of the loss: what clips or rounds derivatives is not linear in it
_PYTHON = re.compile("(Eager)?PyFunc")
_DRAWS = re.compile(  # random numbers, by counters inside of kernels
    "Random(Uniform|Standard|Shuffle|Gamma|Poisson|Crop)|TruncatedNormal|ParameterizedTruncated|"
    "Multinomial|SampleDistortedBoundingBox"
)
_STORES = re.compile("LookupTable(Insert|Import|Remove)|QueueEnqueue|BarrierInsert|(Map)?Stage$")


class Checked(NamedTuple):
    """The findings of a randomized check.

    Attributes:
        found: List of sentences, each on a dependence of an example on others.
        not_run: Why it did not run to its end, a sentence without a full stop; else None.
    """

    found: list
    not_run: str | None = None


def randomized_check(function, examples, *, variables=list, layers=()):
    """Runs a function of examples, and looks for any that changes what is computed for another.

    Examples are split into two groups, in several ways. Replacing those of one group must change
    neither the values of the other, nor the gradient of a weighted sum of these, nor a variable.
    That sum must not depend on the inputs of the first group, and the gradients of the sums of both
    groups must add up to that of all.

    Args:
        function: From a structure of tensors [n, ...] to one of [n, ...], as in training.
        examples: `SyntheticExamples`.
        variables: Function that returns the variables to take gradients with respect to.
        layers: Keras layers that `function` runs; their random numbers repeat themselves.

    Returns:
        `Checked`. Variables and the random numbers of the process are as before.
    """
    with undisturbed(*layers):
        try:
            runs = _Runs(function, examples, variables)
        except Exception as error:  # whatever code of the user's raises
            return Checked([], f"it could not be run: {_short(error)}")
        which = "synthetic"
        try:
            not_run = runs.says_nothing()
            which = "unusual"
            return Checked([] if not_run else _findings(runs, examples), not_run)
        except tf.errors.OpError as error:
            return Checked([], f"{which} examples could not be run: {_short(error)}")
        finally:
            runs.restore()


class _Run(NamedTuple):
    """The results of a run, lists of arrays."""

    values: list  # [n, ...]
    by_variables: list  # of the weighted sum of the values
    by_inputs: list  # [n, ...]
    state: list


class _Runs:
    """The graph of a function and of its gradients, run from the same state each time."""

    def __init__(self, function, examples, variables):
        self._examples = examples
        self._weights = np.random.default_rng(1).normal(size=examples.count) + 2.0
        specs = tf.nest.map_structure(
            lambda a: tf.TensorSpec(a.shape, tf.as_dtype(a.dtype)), examples.base
        )

        def values_and_gradients(x, weights, watches):
            seed_graph(_GRAPH_SEED)
            inputs = [t for t in tf.nest.flatten(x) if t.dtype.is_floating and watches]
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                values = self._one_for_each_example(tf.nest.flatten(function(x)))
                total = _weighted_sum(values, weights)
            trained = list(variables()) if total is not None else []
            gradients = [[], []]
            if trained or (inputs and total is not None):
                gradients = tape.gradient(total, [trained, inputs], unconnected_gradients="zero")
            return values, *tf.nest.map_structure(tf.convert_to_tensor, gradients)

        self._specs = specs, tf.TensorSpec([examples.count])
        try:
            self._graph = self._traced(values_and_gradients, True)
        except LookupError:  # operations on the inputs that have no gradient
            self._graph = self._traced(values_and_gradients, False)
        leaves = [leaf.op for leaf in leaf_operations(self._graph.graph.get_operations())]
        self.types = {op.type for op in leaves}
        digits = {_LAST_DIGIT.get(t.dtype, _FLOAT32) for op in leaves for t in op.outputs}
        self.same, self.other_order = (n * max(digits) for n in (_SAME, _OTHER_ORDER))
        self.other_order = min(_MOST, self.other_order)
        self._variables = captured_variables(self._graph)
        names = {id(v.handle): v.name for v in self._graph.graph.variables}
        self.names = [names.get(id(handle), "without a name") for handle, _ in self._variables]
        self._initial = self._state()

    def run(self, rows, counted, scale=1.0):
        """Runs on `rows`; gradients are of the weighted sum of those in the mask `counted`."""
        self.restore()
        graph = self._graph
        if any(map(_DRAWS.match, self.types)):
            # In a new function, operations have new kernels, whose counters start again.
            graph = self._traced(lambda x, weights: self._graph(x, weights))
        x = tf.nest.map_structure(tf.convert_to_tensor, rows)
        weights = tf.constant(scale * self._weights * counted, tf.float32)
        found = tf.nest.map_structure(np.asarray, graph(x, weights))
        return _Run(*found, [np.asarray(value) for value in self._state()])

    def restore(self):
        """Gives all variables their first values."""
        for (handle, _), value in zip(self._variables, self._initial, strict=True):
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)

    def says_nothing(self):
        """Why comparing runs would show nothing, a sentence; None if it can."""
        if any(map(_PYTHON.match, self.types)):
            return "it calls Python functions, whose state is not visible"
        everyone = np.ones(self._examples.count, bool)
        one, other = (self.run(self._examples.base, everyone) for _ in range(2))
        if max(_moved(one.values, other.values), _moved(one.state, other.state)) > self.same:
            return "its values differ between two runs with the same examples and random numbers"
        floats = [a for a in [*one.values, *one.by_variables] if _is_float(a)]
        if not all(np.isfinite(a).all() for a in floats):
            return "its values or gradients on synthetic examples are not finite"
        if one.by_variables and not _largest(one.by_variables):
            return "its gradients on synthetic examples are all 0"
        return None

    def _state(self):
        return [
            tf.identity(tf.raw_ops.ReadVariableOp(resource=handle, dtype=kind))
            for handle, kind in self._variables
        ]

    def _traced(self, function, *options):
        return traced(lambda x, w: function(x, w, *options), self._specs)

    def _one_for_each_example(self, values):
        """Values [n, ...]; where the trace does not know n, each run looks at it."""
        count = self._examples.count
        shapes = [tuple(t.shape) for t in values if tuple(t.shape)[:1] not in ((count,), (None,))]
        if shapes:
            raise ValueError(f"{count} examples gave shapes {shapes}")
        return [tf.ensure_shape(t, [count, *t.shape[1:]]) for t in values]


@as_written
def _weighted_sum(values, weights):
    """Weighted over examples, and at random within them: tied values would cancel."""
    terms = []
    for number, value in enumerate(v for v in values if v.dtype.is_floating):
        wide = tf.reshape(widened(value), [weights.shape[0], -1])
        seed = [_GRAPH_SEED, number]
        inside = 1.0 + tf.random.stateless_uniform(tf.shape(wide)[1:], seed, dtype=wide.dtype)
        weighted = wide * inside * tf.cast(weights, wide.dtype)[:, tf.newaxis]
        terms.append(tf.cast(tf.reduce_sum(weighted), tf.float64))
    return tf.add_n(terms) if terms else None


def _findings(runs, examples):
    found = [f"state that examples reach: operation {t}" for t in runs.types if _STORES.match(t)]
    base, masks = examples.base, list(splits(examples.count))
    for mask in masks:
        before = runs.run(base, mask)
        theirs = [gradient[~mask] for gradient in before.by_inputs]
        if _largest(theirs) > 0:
            found.append("a derivative with respect to the inputs of other examples")
        for others in (examples.other, examples.outlier):
            found += _differences(runs, before, runs.run(chosen(mask, base, others), mask), mask)
        for others in _unusual(base, mask):
            with contextlib.suppress(tf.errors.OpError):  # such an example trains nothing
                after = runs.run(chosen(mask, base, others), mask)
                found += _differences(runs, before, after, mask)
    for scale in _SCALES:
        ours, theirs = (runs.run(base, part, scale) for part in (masks[0], ~masks[0]))
        whole = runs.run(base, np.ones(examples.count, bool), scale)
        added = [a + b for a, b in zip(ours.by_variables, theirs.by_variables, strict=True)]
        added += [a + b for a, b in zip(ours.by_inputs, theirs.by_inputs, strict=True)]
        if _moved_together([*whole.by_variables, *whole.by_inputs], added) > runs.other_order:
            found.append("gradients of some examples that change when others are part of the loss")
    return list(dict.fromkeys(found))


def _unusual(base, mask):
    """Copies of the examples in `mask`, empty ones, and such that are not finite."""
    inside = np.flatnonzero(mask)
    copied = inside[np.arange(len(mask)) % len(inside)]
    yield tf.nest.map_structure(lambda a: a[copied], base)
    yield tf.nest.map_structure(lambda a: np.full_like(a, "" if a.dtype == object else 0), base)
    yield tf.nest.map_structure(lambda a: a * np.nan if _is_float(a) else a, base)


def _differences(runs, before, after, mask):
    """Sentences on what moved although the examples in `mask` stayed the same."""
    if _moved([a[mask] for a in before.values], [b[mask] for b in after.values]) > runs.same:
        yield "values that change when only other examples do"
    # Not finite: 0 times infinity, of examples whose own gradient training discards.
    pairs = zip(before.by_variables, after.by_variables, strict=True)
    pairs = [(a, b) for a, b in pairs if np.isfinite(a).all() and np.isfinite(b).all()]
    ours = zip(before.by_inputs, after.by_inputs, strict=True)
    pairs += [(a[mask], b[mask]) for a, b in ours]
    if any(_moved([a], [b]) > runs.same for a, b in pairs):
        yield "gradients that change when only other examples do"
    for name, a, b in zip(runs.names, before.state, after.state, strict=True):
        if _moved([a], [b]) > runs.same:
            yield f"a variable that examples change: {name}"


def _moved(before, after):
    """The largest change between two lists of arrays, relative to the largest number of each."""
    return max((_moved_together([a], [b]) for a, b in zip(before, after, strict=True)), default=0.0)


def _moved_together(before, after):
    if any(a.dtype.kind in "OSUb" for a in before):
        return 0.0 if all(map(np.array_equal, before, after)) else np.inf
    pairs = [
        (np.asarray(a, np.float64), np.asarray(b, np.float64))
        for a, b in zip(before, after, strict=True)
    ]
    if any(np.any(np.isfinite(a) != np.isfinite(b)) for a, b in pairs):
        return np.inf
    with np.errstate(invalid="ignore"):
        change = _largest([b - a for a, b in pairs])
    scale = _largest([a for a, _ in pairs])
    return change / scale if scale else np.inf if change else 0.0


def _largest(arrays):
    """The largest absolute finite number; 0 for none."""
    return max(
        (float(np.max(np.abs(a), where=np.isfinite(a), initial=0.0)) for a in arrays), default=0.0
    )


def _is_float(a):
    return tf.as_dtype(a.dtype).is_floating


def _short(error):
    """The type of an exception and the last line of its message."""
    lines = [line.strip() for line in str(error).split("Call arguments received")[0].splitlines()]
    last = next((line for line in reversed(lines) if line), "")
    return f"{type(error).__name__}: {last.removeprefix(f'{type(error).__name__}: ')}"[:300]
