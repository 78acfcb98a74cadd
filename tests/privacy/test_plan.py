"""The plan: one way in, everything checked once, infinite epsilon where nothing is guaranteed."""

import dataclasses
import math
import pickle

import numpy as np
import pytest

from tests.each import each
from tfdpnorm.privacy import (
    PrivacyBudget,
    PrivacyLedger,
    PrivacyPlan,
    calibrate_noise_multiplier,
    dp_sgd_event,
    epsilon_of,
    make_plan,
    privacy_statement,
)
from tfdpnorm.privacy.suggested_plan import suggest_plan

SIZES = {"num_examples": 60_000, "expected_batch_size": 600, "steps": 4000, "l2_norm_clip": 1.0}
UNLIMITED = {"most_per_batch": 60_000}
NOISE = {"noise_multiplier": 2.684, "delta": 1e-5}


def test_a_plan_from_noise():
    plan = make_plan(**SIZES, **NOISE)
    assert plan.sampling_rate == 0.01
    assert plan.guarantee_holds and plan.no_guarantee_because == ()
    assert plan.epsilon_target is None
    assert plan.epsilon_after(0) == 0
    assert plan.epsilon_after(4000) == pytest.approx(1.0, abs=2e-3)
    assert plan.claimed_epsilon_after(4000) == plan.epsilon_after(4000)


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_a_plan_from_a_budget(accountant):
    plan = make_plan(**SIZES, **UNLIMITED, budget=PrivacyBudget(1.0, 1e-5), accountant=accountant)
    assert (plan.epsilon_target, plan.delta, plan.accountant) == (1.0, 1e-5, accountant)
    assert 0.999 <= plan.epsilon_after(plan.steps) <= 1.0
    fresh = epsilon_of(dp_sgd_event(0.01, plan.noise_multiplier, 4000), plan.delta, accountant)
    assert plan.epsilon_after(plan.steps) == pytest.approx(fresh, rel=1e-9)


def test_a_budget_is_for_all_of_its_updates():
    """Few, so that it shows if one is forgotten."""
    sizes = {**SIZES, **UNLIMITED, "steps": 2}
    plan = make_plan(**sizes, budget=PrivacyBudget(1.0, 1e-5))
    assert 0.999 <= epsilon_of(dp_sgd_event(0.01, plan.noise_multiplier, 2), 1e-5) <= 1.0


@pytest.mark.parametrize(
    "given, got",
    [({}, "neither"), ({"budget": PrivacyBudget(1, 1e-5), "noise_multiplier": 1.0}, "both")],
)
def test_exactly_one_of_budget_and_noise(given, got):
    with pytest.raises(ValueError, match=f"exactly one of budget and .*, got {got}"):
        make_plan(**SIZES, **given)


def test_delta_comes_from_exactly_one_place():
    with pytest.raises(ValueError, match="Expected no delta in addition to a budget"):
        make_plan(**SIZES, budget=PrivacyBudget(1, 1e-5), delta=1e-5)
    with pytest.raises(ValueError, match="Expected delta with noise_multiplier"):
        make_plan(**SIZES, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="Expected budget to be a PrivacyBudget, got 1.0"):
        make_plan(**SIZES, budget=1.0)


BAD = {
    "num_examples": [0, 10.5, math.nan],
    "expected_batch_size": [0, -1, math.nan, math.inf],
    "steps": [0, 1.5, math.nan],
    "l2_norm_clip": [0, -1.0, math.nan],
    "noise_multiplier": [-0.1, math.nan, math.inf, 1e-200, 1e200],
    "delta": [0, 1, math.nan],
    "accountant": ["moments"],
    "most_per_batch": [0, 1.5, 600],
    "no_guarantee_because": ["a lone string", ("",), (1,)],
}


@each("name, value", [(name, value) for name, values in BAD.items() for value in values])
def test_bad_values_are_rejected(name, value):
    with pytest.raises(ValueError, match=f"Expected {name} .*got"):
        make_plan(**{**SIZES, **NOISE, name: value})


@pytest.mark.parametrize("given", [NOISE, {"budget": PrivacyBudget(1.0, 1e-5)}])
def test_a_lot_larger_than_the_data_is_rejected(given):
    with pytest.raises(ValueError, match="expected_batch_size=60001 and num_examples=60000"):
        make_plan(**{**SIZES, "expected_batch_size": 60_001}, **given)


@pytest.mark.parametrize("given", [NOISE, {"budget": PrivacyBudget(1.0, 1e-5)}])
def test_an_infinite_clip_needs_the_absence_of_noise(given):
    with pytest.raises(ValueError, match=r"noise_multiplier \* l2_norm_clip"):
        make_plan(**{**SIZES, "l2_norm_clip": math.inf}, **given)


@pytest.mark.parametrize(
    "given", [{"noise_multiplier": 0, "delta": 1e-5}, {"budget": PrivacyBudget(math.inf, 1e-5)}]
)
def test_zero_noise_has_no_guarantee(given):
    plan = make_plan(**{**SIZES, "l2_norm_clip": math.inf}, **given)
    assert plan.no_guarantee_because == ("the noise multiplier is 0",)
    assert plan.epsilon_after(1) == plan.claimed_epsilon_after(1) == math.inf


def test_reasons_make_every_epsilon_infinite_but_the_claimed_one():
    plan = make_plan(**SIZES, **NOISE, no_guarantee_because=["lot statistics", "lot statistics"])
    assert plan.no_guarantee_because == ("lot statistics",)
    assert not plan.guarantee_holds
    for updates in (0, 1, 4000):
        assert plan.epsilon_after(updates) == math.inf
    assert plan.claimed_epsilon_after(4000) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("delta", [1 / 60_000, 1e-3])
def test_a_large_delta_warns_with_both_numbers(delta):
    with pytest.warns(UserWarning, match=rf"delta={delta:g} .*num_examples=60000.*at most 0.1"):
        make_plan(**SIZES, noise_multiplier=1.0, delta=delta)


def test_a_delta_too_small_for_pld_is_rejected_before_training():
    settings = dict(num_examples=1000, expected_batch_size=10, steps=4000, l2_norm_clip=1.0)
    settings |= dict(noise_multiplier=1.0, delta=1e-12)
    with pytest.raises(ValueError, match="^Expected delta of at least .* with the .pld."):
        make_plan(accountant="pld", **settings)
    make_plan(accountant="rdp", **settings)
    make_plan(accountant="pld", **(settings | {"noise_multiplier": 0.0}))


def test_numpy_numbers_become_plain_ones():
    plan = make_plan(
        num_examples=np.int64(1000),
        expected_batch_size=np.float32(10),
        steps=np.int32(5),
        l2_norm_clip=np.float64(1),
        noise_multiplier=np.float64(1.5),
        delta=np.float64(1e-4),
    )
    types = {f.name: type(getattr(plan, f.name)) for f in dataclasses.fields(plan)}
    assert types["num_examples"] is types["steps"] is types["expected_batch_size"] is int
    assert types["noise_multiplier"] is types["l2_norm_clip"] is types["delta"] is float


def test_a_fractional_lot_and_a_full_one():
    assert PrivacyPlan(10, 2.5, 1, 1.0, 1.0, 1e-5).sampling_rate == 0.25
    assert PrivacyPlan(10, 10, 3, 4.0, 1.0, 1e-5).sampling_rate == 1


def test_equal_plans_are_equal_whatever_was_computed_from_them():
    one, other = make_plan(**SIZES, **NOISE), make_plan(**SIZES, **NOISE)
    one.epsilon_after(3)
    assert one == other and hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == other


@each("epsilon", [1e-3, 1, 8.0, math.inf, np.float32(2), np.int64(3)])
def test_valid_budgets_hold_plain_floats(epsilon):
    budget = PrivacyBudget(epsilon=epsilon, delta=np.float64(1e-5))
    assert (budget.epsilon, budget.delta) == (float(epsilon), 1e-5)
    assert type(budget.epsilon) is float and type(budget.delta) is float


@each("count, delta", [(1, 1e-5), (6_000, 1e-5), (10_000, 1e-5), (60_000, 0.1 / 60_000)])
def test_a_budget_without_a_delta_has_one_by_rule(count, delta):
    """Of the planned number of examples or persons, which the statement says."""
    budget, settings = PrivacyBudget(3.0), {"num_examples": count, "l2_norm_clip": 1.0}
    plan = make_plan(**settings, expected_batch_size=1, steps=1, budget=budget)
    assert plan.delta == pytest.approx(delta)
    assert suggest_plan(budget=budget, num_examples=count).plan.delta == plan.delta
    own = make_plan(**settings, expected_batch_size=1, steps=1, noise_multiplier=1.0, delta=1e-7)
    rule = f"1 / (10 N) with N = {count}"
    assert rule in privacy_statement(PrivacyLedger(plan))
    assert rule not in privacy_statement(PrivacyLedger(own))
    with pytest.raises(ValueError, match="no delta"):
        calibrate_noise_multiplier(budget, 0.1, 10)


@each("epsilon", [0, -1.0, -math.inf, math.nan, "1", None, True, 1j, [1.0]])
@each("delta", [0, 1, -1e-5, 2.0, math.inf, math.nan, "1e-5", False])
def test_bad_budgets_are_rejected(epsilon, delta):
    with pytest.raises(ValueError, match=r"Expected epsilon > 0, got "):
        PrivacyBudget(epsilon=epsilon, delta=1e-5)
    with pytest.raises(ValueError, match=r"Expected delta strictly between 0 and 1, got "):
        PrivacyBudget(epsilon=1.0, delta=delta)
