"""Random graphs that take and put entries by index: no verdict on them can be refuted."""

import numpy as np
import pytest
import tensorflow as tf

from tests.each import each
from tests.independence.verification.perturbation import P, refuted, spec, traced, verdicts_of
from tfdpnorm.independence.verification.verdicts import Mixed, Rows

QUICK, LONG = range(15), range(15, 315)
STEPS, WIDTH = 4, 2
SIZE = P * STEPS


def places(i, rng):
    """Ids [P, n] as places among P * STEPS entries: mostly of their own example, or nearly so."""
    steps = int(rng.choice([STEPS, STEPS, STEPS, STEPS + 1, 2]))
    stride = int(rng.choice([STEPS, STEPS, STEPS, STEPS - 1, 2]))
    first = np.arange(P)
    kind = rng.integers(0, 8)
    if kind == 0:
        first = first[::-1].copy()
    elif kind == 1:
        first = np.roll(first, 1)
    offset = tf.constant(first[:, None] * stride + int(rng.choice([0, 0, 0, 1])), i.dtype)
    found = i % steps + offset
    return found if kind != 2 else tf.minimum(i, STEPS - 1) + offset


def within(i, size, rng):
    """The same, of places that kernels accept."""
    found = places(i, rng)
    return tf.clip_by_value(found, 0, size - 1) if rng.random() < 0.5 else found % size


def graph_of(seed):
    def function(x, i):
        rng = np.random.default_rng(seed)
        flat = tf.reshape(x, [SIZE, WIDTH])
        found = []
        if rng.random() < 0.3:
            i = tf.math.top_k(x[..., 0], 3).indices
        at = within(i, SIZE, rng)
        found.append(tf.gather(flat, at))
        values = x[:, :3]
        found.append(tf.scatter_nd(at[..., None], values, [SIZE, WIDTH]))
        size = int(rng.choice([SIZE, SIZE + P, SIZE + 1]))
        ids = tf.reshape(within(i, size, rng), [-1])
        segment = rng.choice(["sum", "max", "prod"])
        function = getattr(tf.math, f"unsorted_segment_{segment}")
        found.append(function(tf.reshape(values, [-1, WIDTH]), ids, size))
        found.append(tf.tensor_scatter_nd_add(flat, at[..., None], values))
        first = rng.permutation(P) if rng.random() < 0.3 else np.arange(P)
        numbers = tf.constant(first, i.dtype)
        pairs = tf.stack([numbers, i[:, 0] % int(rng.choice([P, STEPS]))], 1)
        if rng.random() < 0.3:
            pairs = tf.reverse(pairs % P, [1])
        found.append(tf.gather_nd(x[:, :P], pairs % P))
        found.append(tf.scatter_nd(pairs % P, x[:, 0], [P, P, WIDTH]))
        chosen = np.sort(rng.integers(0, P, int(rng.choice([P, 2 * P]))))
        chosen = np.repeat(np.arange(P), 2) if rng.random() < 0.5 else chosen
        found.append(tf.gather(x, chosen))
        found.append(tf.gather_nd(x, chosen[:, None]))
        found.append(tf.scatter_nd(chosen[:, None], tf.gather(x, chosen), [P, STEPS, WIDTH]))
        return [tf.identity(y) for y in found]

    return function


SPECS = [spec(STEPS, WIDTH), spec(3, dtype=tf.int32)]


@each("seed", QUICK)
def test_verdicts_on_entries_by_index_hold(seed):
    assert refuted(traced(graph_of(seed), SPECS), SPECS, seed, bound=9) == set()


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG)
def test_verdicts_on_many_entries_by_index_hold(seed):
    assert refuted(traced(graph_of(seed), SPECS), SPECS, seed, bound=9) == set()


def test_the_random_indices_say_something():
    """Of each operation some are of rows and some are mixed."""
    by_operation = zip(
        *(verdicts_of(traced(graph_of(seed), SPECS))[0] for seed in QUICK), strict=True
    )
    for verdicts in by_operation:
        assert any(isinstance(v, Rows) for v in verdicts)
        assert any(isinstance(v, Mixed) for v in verdicts)
