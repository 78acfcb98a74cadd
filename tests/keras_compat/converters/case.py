"""For each operation that may be vectorised over rows: small calls of it, with random inputs.

A case is compared in values and gradients with a loop over rows (`test_converters.py`), for every
choice of inputs that differ between rows, since a converter may treat an input that all rows share
in another way.
"""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfdpnorm.keras_compat.corrections import right_converters

RAW = tf.raw_ops


class Case(NamedTuple):
    """A call.

    Attributes:
        call: Function of one row's inputs that returns a tensor or a list of tensors.
        inputs: Functions from a generator and a number of rows to an array [rows, ...].
        of_rows: The choices of inputs that differ between rows, tuples of their numbers; None
            takes each alone, and all of them.
        tolerance: Largest difference, absolute and relative.
        gradient: Whether gradients are compared, too.
    """

    call: object
    inputs: tuple
    of_rows: tuple | None = None
    tolerance: float = 2e-5
    gradient: bool = True

    def choices(self):
        """The inputs that differ between rows: tuples of their numbers."""
        if self.of_rows is not None:
            return self.of_rows
        numbers = tuple(range(len(self.inputs)))
        return [(n,) for n in numbers] + ([numbers] if len(numbers) > 1 else [])


def vectorized_map(function, rows):
    """Returns `tf.vectorized_map(function, rows)`, with corrected converters."""
    with right_converters():
        return tf.vectorized_map(function, rows)


# --- inputs ---


def real(*shape, low=-1.5, high=1.5):
    return lambda rng, rows: rng.uniform(low, high, (rows, *shape)).astype("float32")


def positive(*shape, low=0.5, high=2.5):
    return real(*shape, low=low, high=high)


def whole(*shape, low=0, high=3, dtype="int32"):
    return lambda rng, rows: rng.integers(low, high, (rows, *shape)).astype(dtype)


def boolean(*shape):
    return lambda rng, rows: rng.uniform(size=(rows, *shape)) < 0.5


def apart(*shape):
    """Numbers no two of which in a row are close, so that no maximum is in doubt."""

    def drawn(rng, rows):
        size = int(np.prod(shape))
        return (
            np.stack([rng.permutation(size) for _ in range(rows)])
            .reshape(rows, *shape)
            .astype("float32")
            / 4
        )

    return drawn


def definite(size):
    def drawn(rng, rows):
        a = rng.normal(size=(rows, size, size))
        return (a @ a.swapaxes(1, 2) + 2 * np.eye(size)).astype("float32")

    return drawn


def triangular(size):
    return lambda rng, rows: np.tril(rng.uniform(0.5, 1.5, (rows, size, size))).astype("float32")


def ascending(*shape):
    return lambda rng, rows: np.sort(rng.normal(size=(rows, *shape)).astype("float32"))


def sizes(of):
    """As `whole(of)`, in ascending order from 0: ids of segments."""
    return lambda rng, rows: np.sort(rng.integers(0, 3, (rows, of)).astype("int32"))


# --- kinds of operations ---


def of(name, *names, **attributes):
    """The raw operation `name` as a function of the inputs `names`, by position."""
    function = getattr(RAW, name)

    def call(*inputs):
        return function(**dict(zip(names, inputs, strict=True)), **attributes)

    return call


def unary(names, given, argument="x"):
    return {name: [Case(of(name, argument), (given,))] for name in names.split()}


def binary(names, left, right, arguments=("x", "y")):
    """Of shapes that are broadcast."""
    shapes = [((2,), (3, 2))]
    return {
        name: [Case(of(name, *arguments), (left(*a), right(*b))) for a, b in shapes]
        for name in names.split()
    }


def reductions(names, given):
    axes = [(0, False), (-1, True), ([0, -1], False), ([], False), ([1], True)]
    return {
        name: [Case(of(name, "input", axis=axis, keep_dims=keep), (given,)) for axis, keep in axes]
        for name in names.split()
    }


def each(call, *settings, inputs, **options):
    """One case for each of several dicts of keyword arguments."""
    return [Case(functools.partial(call, **s), inputs, **options) for s in settings]


def complex_numbers(*shape):
    return (real(*shape), real(*shape))


def on_complex(call):
    return lambda a, b: call(tf.complex(a, b))
