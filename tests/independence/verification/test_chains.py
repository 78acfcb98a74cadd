"""Random graphs of operations: no verdict on any of their tensors can be refuted."""

import numpy as np
import pytest
import tensorflow as tf

from tests.each import each
from tests.independence.verification.perturbation import P, refuted, spec, traced, verdicts_of
from tfdpnorm.independence.verification.verdicts import Mixed, Rows

QUICK, LONG = range(20), range(20, 340)
STEPS = 8
_LARGEST = 400  # entries


def axis_of(x, rng):
    return int(rng.integers(0, x.shape.rank))


def permuted(x, rng):
    return tf.transpose(x, rng.permutation(x.shape.rank))


def factors(n, rng):
    """n as a product of some numbers."""
    found = []
    for prime in (2, 3, 5, 7):
        while n % prime == 0:
            found.append(prime)
            n //= prime
    found = [*found, n] if n > 1 else found
    rng.shuffle(found)
    merged = []
    for factor in found:
        if merged and rng.random() < 0.5:
            merged[-1] *= factor
        else:
            merged.append(factor)
    for _ in range(int(rng.integers(0, 2))):
        merged.insert(int(rng.integers(0, len(merged) + 1)), 1)
    return merged


def reshaped(x, rng):
    return tf.reshape(x, factors(x.shape.num_elements(), rng))


def part(x, rng):
    index = []
    for n in x.shape:
        kind = rng.integers(0, 6)
        first = int(rng.integers(0, n))
        if kind < 3:
            index.append(slice(None))
        elif kind == 3:
            index.append(slice(first, int(rng.integers(first + 1, n + 1))))
        elif kind == 4:
            index.append(slice(None, None, int(rng.choice([-1, 2]))))
        else:
            index.append(first if x.shape.rank > 1 else slice(None))
    if rng.random() < 0.2:
        index.insert(int(rng.integers(0, len(index) + 1)), tf.newaxis)
    return x[tuple(index)]


def number_for(shape, rng):
    return tf.constant(rng.normal(size=shape), tf.float32)


def weighted(x, rng):
    return tf.tensordot(x, number_for([x.shape[-1], int(rng.choice([2, P]))], rng), 1)


def with_weight(x, rng):
    shape = [n if rng.random() < 0.5 else 1 for n in x.shape]
    return x * number_for(shape[int(rng.integers(0, len(shape))) :], rng)


def gathered(x, rng):
    axis = axis_of(x, rng)
    indices = rng.integers(
        0, x.shape[axis], [int(n) for n in rng.integers(1, 4, rng.integers(1, 3))]
    )
    return tf.gather(x, indices, axis=axis)


def tiled(x, rng):
    return tf.tile(x, [int(rng.choice([1, 1, 2])) for _ in x.shape])


def padded(x, rng):
    return tf.pad(x, [[int(n) for n in rng.choice([0, 0, 1, P], 2)] for _ in x.shape])


def reduced(x, rng):
    function = [tf.reduce_sum, tf.reduce_max, tf.reduce_mean][int(rng.integers(0, 3))]
    if x.shape.rank < 2:
        return x
    return function(x, axis=axis_of(x, rng), keepdims=bool(rng.integers(0, 2)))


def along(x, rng):
    functions = [tf.nn.softmax, tf.cumsum, tf.sort, lambda x, axis: tf.reverse(x, [axis])]
    return functions[int(rng.integers(0, 4))](x, axis=axis_of(x, rng))


def with_itself(x, rng):
    axis = axis_of(x, rng)
    return tf.concat([x, tf.tanh(x), *([tf.ones_like(x)] if rng.random() < 0.3 else [])], axis)


def half(x, rng):
    axis = axis_of(x, rng)
    return tf.split(x, 2, axis=axis)[int(rng.integers(0, 2))] if x.shape[axis] % 2 == 0 else x


def with_another(x, rng, pool):
    other = pool[int(rng.integers(0, len(pool)))]
    try:
        tf.broadcast_static_shape(x.shape, other.shape)
    except ValueError:
        return x
    return tf.where(x > 0, x, other) if rng.random() < 0.3 else x + other


def product(x, rng, pool):
    other = pool[int(rng.integers(0, len(pool)))]
    for a in range(x.shape.rank):
        for b in range(other.shape.rank):
            if x.shape[a] == other.shape[b]:
                return tf.tensordot(x, other, [[a], [b]])
    return x


def normalized(x, rng):
    return (x - tf.reduce_mean(x, -1, keepdims=True)) * tf.math.rsqrt(
        tf.reduce_mean(x**2, -1, keepdims=True) + 1
    )


def looped(x, rng):
    axis = axis_of(x, rng)
    return tf.while_loop(
        lambda i, y: i < 2,
        lambda i, y: (i + 1, y + tf.reduce_max(x, axis, keepdims=True)),
        [tf.constant(0), tf.zeros_like(x)],
    )[1]


def conditional(x, rng):
    axis = axis_of(x, rng)
    return tf.cond(
        tf.random.stateless_uniform([], [1, 2]) < 0.5,
        lambda: tf.nn.relu(x),
        lambda: tf.reverse(x, [axis]),
    )


def listed(x, rng):
    axis = axis_of(x, rng)
    order = [axis, *(a for a in range(x.shape.rank) if a != axis)]
    return tf.scan(lambda a, b: tf.nn.relu(a) + b, tf.transpose(x, order))


UNARY = [permuted, reshaped, reshaped, part, weighted, with_weight, gathered, tiled, padded]
UNARY += [reduced, along, with_itself, half, normalized]
RARE = [looped, conditional, listed]
BINARY = [with_another, with_another, product]


def graph_of(seed):
    """A function that gives all tensors on the way of a random chain of operations."""

    def function(*inputs):
        rng = np.random.default_rng(seed)
        pool = list(inputs)
        for _ in range(STEPS):
            x = pool[int(rng.integers(0, len(pool)))]
            if x.shape.rank == 0 or x.shape.rank > 4:
                continue
            kind = rng.random()
            if kind < 0.25:
                y = BINARY[int(rng.integers(0, len(BINARY)))](x, rng, pool)
            elif kind < 0.32:
                y = RARE[int(rng.integers(0, len(RARE)))](x, rng)
            else:
                y = UNARY[int(rng.integers(0, len(UNARY)))](x, rng)
            if 0 < y.shape.num_elements() <= _LARGEST:
                pool.append(y)
        return [tf.identity(x) for x in pool]

    return function


def specs_of(seed):
    rng = np.random.default_rng(seed)
    shapes = [[int(n) for n in rng.choice([2, P, 4], rng.integers(0, 3))] for _ in range(2)]
    return [spec(*shape) for shape in shapes]


def check(seed):
    specs = specs_of(seed)
    assert refuted(traced(graph_of(seed), specs), specs, seed) == set()


@each("seed", QUICK)
def test_verdicts_on_random_graphs_hold(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG)
def test_verdicts_on_many_random_graphs_hold(seed):
    check(seed)


@each("seed", range(340, 348))
def test_verdicts_on_gradients_of_random_graphs_hold(seed):
    function = graph_of(seed)

    def gradients(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            total = tf.add_n([tf.reduce_sum(tf.sin(y)) for y in function(*inputs)])
        return [tf.identity(g) for g in tape.gradient(total, inputs)]

    specs = specs_of(seed)
    assert refuted(traced(gradients, specs), specs, seed) == set()


def test_the_random_graphs_say_something():
    """Most of their tensors are of rows, many are mixed; layouts of other kinds are among them."""
    found = []
    for seed in QUICK:
        found += verdicts_of(traced(graph_of(seed), specs_of(seed)))[0]
    rows = [v for v in found if isinstance(v, Rows)]
    assert len(rows) > len(found) / 3
    assert sum(isinstance(v, Mixed) for v in found) > len(found) / 10
    assert any(v.axis for v in rows)
    assert any(v.per_example > 1 for v in rows)
    assert any(v.blocks > 1 for v in rows)
