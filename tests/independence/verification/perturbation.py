"""What the verdicts are held against: runs with one example changed."""

import numpy as np
import tensorflow as tf

from tfdpnorm.independence.outputs import question_of
from tfdpnorm.independence.verification.claims import Asked, verify
from tfdpnorm.independence.verification.verdicts import FREE, Rows

P = 3


def spec(*shape, dtype=tf.float32):
    """Rows of P examples."""
    return tf.TensorSpec([P, *shape], dtype)


def traced(function, specs):
    return tf.function(function, autograph=False).get_concrete_function(*specs)


def verdicts_of(concrete, examples=P):
    """The verdicts on the outputs of a traced function, and the state faults."""
    asked = [Asked(f"output {i}", t) for i, t in enumerate(concrete.graph.outputs)]
    proof = verify(question_of(concrete.graph, examples, asked))
    return [claim.verdict for claim in proof.claims], list(proof.state_faults)


def rows_of(specs, rng, bound=3):
    """Random arrays of given specs."""
    return [_random(s, rng, bound) for s in specs]


def _random(spec, rng, bound):
    dtype = spec.dtype.as_numpy_dtype
    if spec.dtype.is_bool:
        return rng.random(spec.shape) < 0.5
    if spec.dtype.is_integer:
        return rng.integers(0, bound, spec.shape).astype(dtype)
    return rng.normal(size=spec.shape).astype(dtype)


def disturbed(arrays, example, rng, bound=3):
    """The arrays with one example changed: to other, large, huge or missing numbers."""
    found = []
    for array in arrays:
        array = array.copy()
        row = _random(tf.TensorSpec(array.shape[1:], tf.as_dtype(array.dtype)), rng, bound)
        if array.dtype.kind == "f":
            row = row * rng.choice([1.0, 1e3, 1e30, np.nan])
        array[example] = row
        found.append(array)
    return found


def wrong(verdict, before, after, example, examples=P):
    """Whether a verdict is wrong: entries of others moved when only `example` changed."""
    if verdict == FREE:
        return not _same(before, after)
    if not isinstance(verdict, Rows):
        return False
    if before.shape[verdict.axis] != verdict.size(examples) or before.shape != after.shape:
        return True
    entries = np.arange(before.shape[verdict.axis])
    others = entries[(entries // verdict.per_example) % examples != example]
    return not _same(np.take(before, others, verdict.axis), np.take(after, others, verdict.axis))


def _same(one, other):
    if one.dtype.kind == "O":  # strings
        return np.array_equal(one, other)
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def refuted(concrete, specs, seed=0, bound=3):
    """Returns the numbers of the outputs whose verdicts are wrong: one example is changed."""
    verdicts, _ = verdicts_of(concrete)
    rng = np.random.default_rng(seed)
    base = rows_of(specs, rng, bound)
    before = _run(concrete, base)
    found = set()
    for example in range(P):
        for _ in range(2):
            after = _run(concrete, disturbed(base, example, rng, bound))
            found.update(
                i
                for i, (v, a, b) in enumerate(zip(verdicts, before, after, strict=True))
                if wrong(v, a, b, example)
            )
    return found


def _run(concrete, arrays):
    return [np.asarray(t) for t in tf.nest.flatten(concrete(*map(tf.constant, arrays)))]
