"""The sampler is exactly Poisson. Thresholds make a false alarm rarer than one in a million."""

import itertools

import numpy as np
from scipy import stats

from tests.each import each
from tfdpnorm.data import poisson, poisson_batches
from tfdpnorm.privacy.slots import Slots

FALSE_ALARM = 1e-8


def secret_samples(num_examples, rate, count):
    """Inclusion matrix of `count` samples: bool [count, N]."""
    included = np.zeros((count, num_examples), dtype=bool)
    for row in included:
        row[poisson.poisson_rows(num_examples, rate, poisson.secret_bits)] = True
    return included


def insecure_samples(num_examples, rate, count):
    included = np.zeros((count, num_examples), dtype=bool)
    for update, row in enumerate(included):
        row[poisson.poisson_rows(num_examples, rate, poisson.insecure_bits(7, update))] = True
    return included


def dataset_samples(num_examples, rate, count):
    batches = poisson_batches(np.arange(num_examples), expected_batch_size=rate * num_examples)
    included = np.zeros((count, num_examples), dtype=bool)
    for row, lot in zip(included, batches.as_dataset(Slots(1, 80)).take(count), strict=True):
        row[lot.x.numpy()[lot.mask.numpy() > 0]] = True
    return included


SOURCES = [
    (secret_samples, 10_000),
    (insecure_samples, 10_000),
    (dataset_samples, 1_000),
]


@each("source,count", SOURCES)
def test_lot_sizes_are_binomial(source, count):
    n, rate = 400, 0.05
    sizes = source(n, rate, count).sum(axis=1)
    variance = n * rate * (1 - rate)
    z = stats.norm.isf(FALSE_ALARM)
    assert abs(sizes.mean() - n * rate) < z * np.sqrt(variance / count)
    # The variance of a sample variance, from the fourth moment of a binomial.
    fourth = variance * (1 + 3 * (n - 2) * rate * (1 - rate))
    assert abs(((sizes - n * rate) ** 2).mean() - variance) < z * np.sqrt(
        (fourth - variance**2) / count
    )
    # Hardly ever cut: the largest of all sizes is where the largest of so many binomials lies.
    assert stats.binom.sf(sizes.max(), n, rate) * count < 20


@each(
    "words,expected",
    [
        (2**64 - 1, [0, 1, 2, 3, 4, 5]),  # Uniform 1: no gaps.
        (0, []),  # Uniform 2^-53: the longest gap, 52 rows at q = 1/2.
        (2**62 - 2**11, [2, 5]),  # Uniform 1/4: gaps of 2 at q = 1/2.
    ],
)
def test_gaps_at_the_edges_of_the_uniform(words, expected):
    rows = poisson.poisson_rows(6, 0.5, lambda count: np.full(count, words, dtype=np.uint64))
    assert rows.tolist() == expected


def test_rows_are_strictly_ascending_and_in_range():
    assert poisson.poisson_rows(5, 1.0, poisson.secret_bits).tolist() == [0, 1, 2, 3, 4]
    for n, rate in [(7, 0.99), (1000, 0.001), (60_000, 0.017), (10, 1e-300), (10, 5e-324)]:
        for _ in range(50):
            rows = poisson.poisson_rows(n, rate, poisson.secret_bits)
            assert rows.dtype == np.int64
            assert (np.diff(rows) > 0).all()
            assert len(rows) == 0 or 0 <= rows[0] <= rows[-1] < n


@each("top", [2**64 - 1, 2**64 - 2**50])
def test_samples_longer_than_one_block_of_gaps(top):
    """Against a loop over single gaps; words this high are improbable and leave few rows out."""
    words = np.random.default_rng(0).integers(top - 2**58, top, 4000, dtype=np.uint64)
    taken = []

    def bits(count):
        start = sum(taken)
        taken.append(count)
        return words[start : start + count]

    rows = poisson.poisson_rows(1000, 0.01, bits)
    expected, row = [], -1
    for word in words:
        row += 1 + int(np.log(((int(word) >> 11) + 1) / 2**53) / np.log1p(-0.01))
        if row >= 1000:
            break
        expected.append(row)
    assert rows.tolist() == expected
    assert len(taken) > 5


@each("rate", [0.15, 0.9])
def test_every_subset_has_its_probability(rate):
    """The whole distribution on 4 rows: 16 subsets, so that any dependence whatever shows."""
    count = 20_000
    included = secret_samples(4, rate, count)
    observed = np.bincount(included @ [8, 4, 2, 1], minlength=16)
    expected = np.array(
        [
            count * np.prod([rate if bit else 1 - rate for bit in bits])
            for bits in itertools.product([0, 1], repeat=4)
        ]
    )
    # Subsets too rare for the chi-squared approximation are counted together.
    rare = expected < 10
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > FALSE_ALARM
