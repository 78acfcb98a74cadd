"""The slots of an update: enough, no more than needed, and computed from public numbers."""

import decimal
import functools
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdpnorm.privacy import make_plan
from tfdpnorm.privacy.slots import Slots, slots_for, slots_of_plan


@functools.lru_cache(maxsize=64)
def tails(n, q):
    """P[Binomial(n, q) > k] for k = 0, ..., n by adding up its terms, in 60 decimal digits."""
    with decimal.localcontext(decimal.Context(prec=60)):
        q = Decimal(q)
        if q == 1:
            return [Decimal(1)] * n + [Decimal(0)]
        terms = [(1 - q) ** n]
        for k in range(n):
            terms.append(terms[-1] * (n - k) * q / ((k + 1) * (1 - q)))
        found = [Decimal(0)]
        for term in reversed(terms[1:]):
            found.append(found[-1] + term)
        return found[::-1]


def hardly_exceeded(n, size, updates, delta):
    """The smallest R >= 1 with T P[Binomial(N, q) > R] <= delta / 1,000."""
    allowed = Decimal(delta) / 1000 / updates
    return max(1, next(k for k, tail in enumerate(tails(n, size / n)) if tail <= allowed))


CASES = [
    (60_000, 64, 10_000, 1e-5),
    (60_000, 1_024, 1_000, 1e-5),
    (60_000, 4_096, 1, 1e-9),
    (1_797, 256.5, 300, 1e-5),
    (1_797, 1_797, 300, 1e-5),
    (300, 299.9, 50, 1e-3),
    (300, 1e-9, 10**6, 1e-8),
    (1, 1, 1, 0.5),
]


@pytest.mark.parametrize("n, size, updates, delta", CASES)
@pytest.mark.parametrize("physical", [None, 1, 7, 64, 576])
def test_slots_suffice_and_are_the_fewest(n, size, updates, delta, physical):
    found = slots_for(n, size, updates=updates, delta=delta, physical_batch_size=physical)
    needed = hardly_exceeded(n, size, updates, delta)
    k, p = found.batches, found.rows
    assert updates * tails(n, size / n)[min(k * p, n)] <= Decimal(delta) / 1000
    assert needed <= k * p
    if physical is None:
        assert (k, p) == (1, 8 * -(-needed // 8)) and p <= 8 * -(-n // 8)
    else:
        assert (k - 1) * physical < needed <= k * physical  # K is minimal
        assert p <= physical and (p % 8 == 0 or p == physical)
        assert p - 8 < -(-needed // k)  # hardly a row is computed for nothing


@pytest.mark.parametrize("n, size, updates, delta", CASES)
@pytest.mark.parametrize("physical", [None, 7, 64])
@pytest.mark.parametrize("replicas", [2, 3, 64])
def test_devices_get_as_many_physical_batches_each(n, size, updates, delta, physical, replicas):
    public = {"updates": updates, "delta": delta, "physical_batch_size": physical}
    found = slots_for(n, size, **public, replicas=replicas)
    needed = hardly_exceeded(n, size, updates, delta)
    assert found.batches % replicas == 0 and needed <= found.batches * found.rows
    assert found.rows <= slots_for(n, size, **public).rows
    if physical is None:
        assert found.batches == replicas
    else:
        assert (found.batches - replicas) * physical < needed and found.rows <= physical


@settings(deadline=None, max_examples=100)
@given(
    n=st.integers(1, 5_000),
    share=st.floats(1e-6, 1),
    updates=st.integers(1, 10**6),
    delta=st.floats(1e-12, 0.1),
    physical=st.integers(1, 300),
)
def test_physical_batches_have_at_most_the_rows_of_a_single_one(n, share, updates, delta, physical):
    """What the noise pays for rounding is computed for that one."""
    public = {"updates": updates, "delta": delta}
    whole = slots_for(n, share * n, **public)
    split = slots_for(n, share * n, **public, physical_batch_size=physical)
    assert whole.batches == 1 and split.rows <= min(whole.rows, physical)


def test_a_plan_knows_all_that_is_needed():
    plan = make_plan(
        num_examples=1_797, expected_batch_size=256, steps=300, l2_norm_clip=1.0,
        noise_multiplier=1.0, delta=1e-5,
    )  # fmt: skip
    assert slots_of_plan(plan, 64) == slots_for(
        1_797, 256, updates=300, delta=1e-5, physical_batch_size=64
    )


@pytest.mark.parametrize("count, batches", [(0, 3), (24, 3), (25, 4), (32, 4), (33, 5)])
def test_only_a_batch_that_does_not_fit_takes_more(count, batches):
    assert Slots(3, 8).batches_for(count) == batches


@pytest.mark.parametrize("name", ["batches", "rows"])
@pytest.mark.parametrize("value, error", [(0, ValueError), (1.5, TypeError), (True, TypeError)])
def test_slots_are_whole(name, value, error):
    with pytest.raises(error, match=f"{name} to be an integer"):
        Slots(**{"batches": 1, "rows": 1, name: value})


@pytest.mark.parametrize("value, error", [(0, ValueError), (2.5, TypeError)])
def test_hostile_physical_batch_size(value, error):
    with pytest.raises(error, match="physical_batch_size to be an integer"):
        slots_for(10, 5, updates=1, delta=0.1, physical_batch_size=value)
