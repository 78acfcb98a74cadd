"""Gradients that depend on positions, in lots that put examples into random slots.

The claim that is attacked: what the *other* examples of a lot add up to has the same distribution
whether one example was drawn, was not drawn, or does not exist. The examples here move one weight,
and the one example another weight, so that one clipped sum shows both.
"""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm import data
from tfdpnorm.privacy.slots import Slots

layers = keras.layers
N, SLOTS, LOTS, CLIP = 16, Slots(batches=2, rows=8), 1500, 1.0


def every_other(rows):
    """A constant for each position: 1, 0, 1, 0, ..."""
    return tf.cast(1 - tf.range(rows) % 2, tf.float32)


def amplified(rows):
    """What rounding adds to a sum, times ten million: another number at each position."""
    thirds = tf.cast(tf.range(rows), tf.float32) / 3.0
    return tf.clip_by_value(1e7 * (thirds + 1.0 - thirds - 1.0) + 0.5, 0.0, 1.0)


class ByPosition(layers.Layer):
    """Multiplies each row by a number of its position."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers = numbers

    def call(self, x):
        return x * self.numbers(tf.shape(x)[0])[:, tf.newaxis]


def made(numbers, **settings):
    dense = layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((2,)), dense, ByPosition(numbers)])
    private = private_of(
        model,
        num_examples=N,
        expected_batch_size=N / 2,
        steps=1,
        l2_norm_clip=CLIP,
        engine="book_keeping",
        **settings,
    )
    private.compile("sgd", lambda y, predictions: predictions[:, 0])
    return private


def examples(count):
    """The first one moves the second weight, all others the first one."""
    x = np.zeros((count, 2), np.float32)
    x[:, 0] = 1.0
    return x


def lots_of(x, expected_batch_size):
    batches = data.poisson_batches(x, x[:, 0], expected_batch_size=expected_batch_size)
    return batches.as_dataset(SLOTS).take(LOTS)


def sums_of_others(numbers):
    """(number of others, their clipped sum) of each lot: with the one, without it, and of none."""
    x = examples(N)
    x[0] = 0.0, 1.0
    private = made(numbers, validate=False)
    clipped = tf.function(lambda lot: private.clipped_sum(lot)[0])
    found = {"drawn": [], "not drawn": [], "absent": []}
    rate = 0.5
    for name, rows in (("present", x), ("absent", x[1:])):
        for lot in lots_of(rows, rate * len(rows)):
            others = int(tf.reduce_sum(lot.x[..., 0]))
            is_drawn = float(tf.reduce_sum(lot.x[..., 1])) > 0
            world = "absent" if name == "absent" else ("drawn" if is_drawn else "not drawn")
            found[world].append((others, float(clipped(lot)[0, 0])))
    return {name: np.array(pairs) for name, pairs in found.items()}


def assert_moments(pairs, mean_of, variance_of, world):
    """Sums have the mean and variance that the number of others says: within 5 standard errors."""
    n, total = pairs.T
    mean, variance = mean_of(n), variance_of(n)
    assert abs(np.sum(total - mean)) < 5 * np.sqrt(variance.sum()), world
    excess = (total - mean) ** 2 - variance
    assert abs(excess.sum()) < 5 * np.sqrt((excess**2).sum()), world


def half_of_the_slots(n):
    """The variance of how many of n examples are in 8 of 16 slots: hypergeometric."""
    return n / 4 * (16 - n) / 15


def test_the_sum_of_the_others_is_hypergeometric_in_each_world():
    """Filled from the front, it would follow from the number drawn, and from the one example."""
    for world, pairs in sums_of_others(every_other).items():
        assert_moments(pairs, lambda n: n / 2, half_of_the_slots, world)


def test_layers_that_depend_on_positions_are_verified_and_train():
    private = made(amplified)
    private.fit(examples(N), np.zeros(N, np.float32), verbose=0)
    assert private.ledger.guarantee_holds and private.ledger.updates == 1
    assert private.engine == "book_keeping"
    # At fixed positions one example moves the sum by C.
    clipped = tf.function(lambda lot: private.clipped_sum(lot)[0])
    x = 3.0 * np.random.default_rng(0).normal(size=(N, 2)).astype(np.float32)
    moved = []
    for lot in lots_of(x, N / 2).take(100):
        drawn = np.argwhere(lot.mask.numpy() > 0)
        for batch, row in drawn[:3]:
            kept = np.ones(lot.mask.shape, np.float32)
            kept[batch, row] = 0.0
            without = lot._replace(x=lot.x * kept[..., np.newaxis], mask=lot.mask * kept)
            moved.append(np.linalg.norm(clipped(lot) - clipped(without)))
    assert CLIP * 0.999 < max(moved) <= CLIP * (1 + 1e-5)
