"""Which examples are drawn and into which slots, and the two sources of these random numbers.

Amplification by sampling assumes that the members of a batch are secret, and so are their slots. A
seed reveals both. The default source is therefore the operating system's cryptographic generator,
read again for each batch: no seed can be leaked, logged or reused, and nothing survives in a forked
process. A batch needs about 8 bytes for each example that is *drawn* and 8 for each slot, which
costs tens of microseconds, so that a faster generator seeded from the system would gain nothing.
"""

import os

import numpy as np


def secret_bits(count):
    """Returns `count` 64-bit words, shape [count], from the operating system's entropy."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def insecure_bits(seed, update):
    """Returns a source like `secret_bits` that depends on (`seed`, `update`) alone.

    The seed reveals every batch: for debugging and comparisons, never for private data.
    """
    # NumPy promises that raw words of a bit generator stay the same from version to version.
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(update,))).random_raw


def poisson_rows(num_examples, sampling_rate, bits):
    """Draws one Poisson sample: each row is in it independently with the same probability.

    Between one included row and the next lies a geometric number of left-out rows. Drawing these
    gaps (Fan, Muller and Rezucha, 1962) gives the same distribution as one coin per row, to within
    2^-53 of each probability, and takes work in proportion to the sample.

    Args:
        num_examples: N >= 1.
        sampling_rate: probability q of each row, 0 < q <= 1.
        bits: function from a count to that many uniform uint64 words.

    Returns:
        The included row numbers, int64, ascending, shape [n], where n ~ Binomial(N, q).
    """
    if sampling_rate >= 1.0:
        return np.arange(num_examples, dtype=np.int64)
    mean = sampling_rate * num_examples
    # Enough gaps to pass the last row nearly always; the loop draws more when they do not.
    block = int(mean + 5 * np.sqrt(mean)) + 8
    log_left_out = np.log1p(-sampling_rate)
    last, parts = -1, []
    while last < num_examples:
        # In (0, 1]: P(gap >= k) = P(u <= (1 - q)^k) = (1 - q)^k.
        uniform = ((bits(block) >> np.uint64(11)) + 1.0) * 2.0**-53
        # Limited to N before the cast: at a tiny q a gap can exceed the integers.
        with np.errstate(over="ignore", divide="ignore"):
            gaps = np.floor(np.log(uniform) / log_left_out)
        gaps = np.minimum(gaps, num_examples).astype(np.int64)
        rows = last + np.cumsum(gaps + 1)
        parts.append(rows)
        last = int(rows[-1])
    rows = np.concatenate(parts)
    return rows[: np.searchsorted(rows, num_examples)]


def random_slots(count, slots, bits):
    """Draws distinct slots for `count` examples: each injection is equally likely.

    The order of random words is a uniform permutation, provided that no two are equal. Equal ones
    are drawn again, which leaves it exactly uniform.

    Args:
        count: n >= 0 examples.
        slots: The number of slots, >= n. What is drawn does not depend on n.
        bits: As in `poisson_rows`.

    Returns:
        The slot of each example, int64 [n].
    """
    while True:
        words = bits(slots)
        order = np.argsort(words)
        if (np.diff(words[order]) != 0).all():
            return order[:count]
