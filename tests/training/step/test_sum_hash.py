"""The hash of a sum: its definition in whole numbers, and sums that are alike."""

import numpy as np
import pytest
import tensorflow as tf

from tfdpnorm.training.step import sum_hash
from tfdpnorm.training.step.sum_hash import BLOCK, HostHash, SumHash

HASHES = (SumHash, HostHash)


@pytest.fixture(scope="module")
def total():
    return np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32)


def value(hash_, *tensors):
    return int(hash_([tf.constant(t) for t in tensors]))


def test_a_block_is_hashed_by_its_definition():
    """In Python's whole numbers. Words count with their signs, which is the same mod 2^64."""
    hash_ = SumHash(b"secret")
    words = np.random.default_rng(1).integers(-(2**31), 2**31, BLOCK + 5)
    found = hash_._hashed(sum_hash._blocks(tf.constant(words, tf.int32)), 2).numpy()
    keys = hash_._keys[2].numpy()
    for block, part in enumerate((words[:BLOCK], words[BLOCK:])):
        for column in range(2):
            sum_ = int(keys[column, BLOCK]) + sum(
                int(k) * int(w) for k, w in zip(keys[column], part, strict=False)
            )
            assert int(found[2 * block + column]) % 2**32 == sum_ % 2**64 // 2**32


def test_both_forms_are_the_same(total, monkeypatch):
    usual = value(SumHash(b"secret"), total)
    compiled = tf.function(SumHash(b"secret"), jit_compile=True)
    assert int(compiled([tf.constant(total)])) == usual
    monkeypatch.setattr(sum_hash, "has_gpu", lambda: True)
    assert value(SumHash(b"secret"), total) == usual


@pytest.mark.parametrize("kind", HASHES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_that_are_alike_differ(kind, dtype, total):
    """Sign flips, factors of 2, permutations, which cancelled in sums of the bits; single bits."""
    hash_, total = kind(b"secret"), total.astype(dtype)
    signs = np.outer(np.resize([1, -1], 512), np.resize([1, 1, -1, -1], 512)).astype(dtype)
    alike = [total, -total, 2 * total, 0.5 * total, 4 * total, signs * total, total.T.copy()]
    alike += [total[::-1].copy(), total[:, ::-1].copy(), np.roll(total, 1), np.abs(total)]
    alike += [total.reshape(256, 1024), np.zeros_like(total), -np.zeros_like(total)]
    for place in ((0, 0), (511, 511), (3, 200)):
        for way in (np.inf, -np.inf):
            other = total.copy()
            other[place] = np.nextafter(other[place], dtype(way))
            alike.append(other)
        other = total.copy()
        other[place] *= -1
        alike.append(other.copy())
        other[0, 1] *= -1
        alike.append(other)
    found = [value(hash_, t) for t in alike]
    found += [value(hash_, total[:256], total[256:]), value(hash_, total[256:], total[:256])]
    found += [value(hash_, total[:100], total[100:]), value(kind(b"other"), total)]
    assert len(set(found)) == len(found)
    assert value(kind(b"secret"), total) == found[0]


@pytest.mark.parametrize("sizes", [(1,), (0, 3), (5, 1, 3000), (BLOCK - 8,), (BLOCK - 7,)])
def test_any_sizes(sizes):
    hash_ = SumHash(b"secret")
    tensors = [np.arange(n, dtype=np.float32) for n in sizes]
    others = [t.copy() for t in tensors]
    others[-1][-1] += 1
    assert value(hash_, *tensors) == value(hash_, *tensors) != value(hash_, *others)


def test_half_a_hash_agrees_no_more_often_than_chance():
    """4,000 keys, for a pair of sums that differ in the sign of one number, the worst case."""
    ends = [0, 0]
    for seed in range(4000):
        factor, offset = np.random.default_rng(seed).integers(-(2**63), 2**63, 2)
        with np.errstate(over="ignore"):
            pair = [(offset + factor * word) >> 32 for word in (np.int64(5), np.int64(5 - 2**31))]
        for end, bits in enumerate((0, 24)):
            ends[end] += ((pair[0] ^ pair[1]) >> bits) & 0xFF == 0
    assert max(ends) < 4000 / 256 + 6 * np.sqrt(4000 / 256)


def test_small_tensors_are_hashed_together_as_each_by_itself(monkeypatch):
    rng = np.random.default_rng(3)
    sizes = (3, BLOCK, BLOCK + 1, 300_000, 1, 2)
    tensors = [rng.normal(size=size).astype(np.float32) for size in sizes]
    together = value(SumHash(b"secret"), *tensors)
    monkeypatch.setattr(sum_hash, "_MOST_BLOCKS_JOINED", 0)
    assert value(SumHash(b"secret"), *tensors) == together
