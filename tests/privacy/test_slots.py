"""The most examples of a batch, and its slots: enough, and no more than needed."""

import dataclasses
import decimal
import functools
import math
from decimal import Decimal

import pytest

from tests.each import each
from tfdpnorm.privacy import PrivacyBudget, PrivacyLedger, make_plan
from tfdpnorm.privacy.accountants import composed_epsilon
from tfdpnorm.privacy.mechanisms import Mechanism
from tfdpnorm.privacy.slots import Slots, most_per_batch_for, slots_for

PLANS = [
    dict(num_examples=1_437, expected_batch_size=64, steps=400, noise_multiplier=1.5),
    dict(num_examples=12_000, expected_batch_size=256, steps=400, noise_multiplier=0.95),
    dict(num_examples=60_000, expected_batch_size=1_024.5, steps=200, noise_multiplier=3.0),
]


@functools.lru_cache(maxsize=64)
def tails(n, q):
    """P[Binomial(n, q) > k] for k = 0, ..., n by adding up its terms, in 60 decimal digits."""
    with decimal.localcontext(decimal.Context(prec=60)):
        q = Decimal(q)
        terms = [(1 - q) ** n]
        for k in range(n):
            terms.append(terms[-1] * (n - k) * q / ((k + 1) * (1 - q)))
        found = [Decimal(0)]
        for term in reversed(terms[1:]):
            found.append(found[-1] + term)
        return found[::-1]


@each("n, q, most", [(60_000, 64 / 60_000, 120), (1_797, 0.15, 330), (7, 0.5, 4), (6, 0.9, 6)])
@each("rows", [1, 3])
def test_how_often_others_leave_too_few_places(n, q, most, rows):
    found = Mechanism(q, 1.0, 1, most, n).overflow(rows)
    assert found == pytest.approx(float(tails(n, q)[most - rows]), rel=1e-9)
    fewest = most_per_batch_for(n, q, found)
    assert fewest % 8 == 0 or fewest == n
    assert Mechanism(q, 1.0, 1, fewest, n).overflow() <= found
    assert Mechanism(q, 1.0, 1, fewest - 8, n).overflow() > found


@each("accountant", ["rdp", "pld"])
@each("settings", PLANS)
def test_the_limit_costs_a_thousandth_of_epsilon(settings, accountant):
    plan = make_plan(**settings, l2_norm_clip=1.0, delta=1e-5, accountant=accountant)
    mechanism, most = plan.mechanism(plan.steps), plan.most_per_batch
    without = composed_epsilon([mechanism[:3]], 1e-5, accountant)
    assert most % 8 == 0 and without < plan.epsilon_after(plan.steps) <= 1.001 * without
    fewer = mechanism._replace(most_per_batch=most - 16)
    assert composed_epsilon([fewer], 1e-5, accountant) > 1.001 * without


def test_nor_does_it_cost_persons_more_whose_epsilon_is_stated():
    sizes = dict(num_examples=1_437, expected_batch_size=64, steps=50, l2_norm_clip=1.0)
    plan = make_plan(**sizes, noise_multiplier=1.5, delta=1e-5, most_per_person=4, unit="row")
    found, without = (
        PrivacyLedger(each).person_epsilon(whole_plan=True)
        for each in (plan, dataclasses.replace(plan, most_per_batch=1_437))
    )
    assert without <= found <= 1.0011 * without  # what is stated is on a grid


def test_the_noise_for_a_budget_includes_it():
    sizes = dict(num_examples=1_437, expected_batch_size=64, steps=400, l2_norm_clip=1.0)
    for most in (None, 90):
        plan = make_plan(**sizes, budget=PrivacyBudget(2.0, 1e-5), most_per_batch=most)
        assert most in (None, plan.most_per_batch)
        assert 1.996 < plan.epsilon_after(400) <= 2
    for budget in (1.0, 2.0, 4.0, 8.0):  # with the noise of no limit, some would be above
        plan = make_plan(**sizes, budget=PrivacyBudget(budget, 1e-5), accountant="pld")
        assert plan.epsilon_after(400) <= budget


@each("epsilon", [1e-2, 30, 300, 349, 500, 700])
def test_any_budget_can_be_met(epsilon):
    """Also where two ways to the epsilon of a limited batch meet."""
    sizes = dict(num_examples=1_000, expected_batch_size=50, steps=100, l2_norm_clip=1.0)
    plan = make_plan(**sizes, budget=PrivacyBudget(epsilon, 1e-5), accountant="pld")
    assert 0.98 * epsilon <= plan.epsilon_after(100) <= epsilon and plan.most_per_batch < 120


def test_hardly_any_update_may_draw_too_many():
    sizes = dict(num_examples=1_437, expected_batch_size=64, steps=400, l2_norm_clip=1.0)
    with pytest.raises(ValueError, match="most_per_batch of at least 88, got 80"):
        make_plan(**sizes, noise_multiplier=1.0, delta=1e-5, most_per_batch=80)
    assert make_plan(**sizes, noise_multiplier=1.0, delta=1e-5, most_per_batch=88)


@each("noise", [0.0, 1e-8, 1.0])
def test_batches_of_all_have_no_limit(noise):
    plan = make_plan(
        num_examples=9, expected_batch_size=9, steps=3, l2_norm_clip=1.0, noise_multiplier=noise,
        delta=1e-3,
    )  # fmt: skip
    assert plan.most_per_batch == 9 and plan.mechanism(3) == (1.0, noise, 3, None, None)


def test_without_a_finite_price_overflows_hardly_add_to_delta():
    plan = make_plan(**{**PLANS[0], "noise_multiplier": 0.0}, l2_norm_clip=1.0, delta=1e-5)
    mechanism = plan.mechanism(400)
    assert 400 * mechanism.overflow() <= 1e-8
    assert 400 * mechanism._replace(most_per_batch=plan.most_per_batch - 8).overflow() > 1e-8


@each("most", [1, 8, 104, 1_170])
@each("physical", [None, 1, 7, 64, 576])
@each("replicas", [1, 2, 3])
def test_slots_suffice_and_are_the_fewest(most, physical, replicas):
    found = slots_for(most, physical, replicas)
    k, p = found.batches, found.rows
    assert found.most_per_batch == most <= k * p and k % replicas == 0
    assert p <= slots_for(most).rows  # what the noise pays for rounding is computed for that one
    if physical is None:
        assert k == replicas and p == 8 * math.ceil(most / replicas / 8)
    else:
        assert (k - replicas) * physical < most  # K is minimal
        assert p <= physical and (p % 8 == 0 or p == physical)
        assert p - 8 < math.ceil(most / k)  # hardly a row is computed for nothing


def test_hostile_numbers():
    with pytest.raises(ValueError, match="physical_batch_size to be an integer"):
        slots_for(10, 0)
    with pytest.raises(ValueError, match="most_per_batch of at most 2 x 8 slots, got 17"):
        Slots(2, 8, 17)
