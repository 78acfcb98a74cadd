"""Epsilon over time: the fast values are the freshly composed ones."""

import math

import dp_accounting
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.each import each
from tfdpnorm.privacy import RDP_ORDERS, PrivacyPlan, accountants, dp_sgd_event, epsilon_of


def plan(rate, noise, planned, accountant="rdp"):
    sizes = 10_000, rate * 10_000, planned
    clip = 1.0 if noise else math.inf
    return PrivacyPlan(
        *sizes, noise, clip, delta=1e-5, accountant=accountant, most_per_batch=10_000
    )


@pytest.mark.parametrize("rate, noise", [(0.01, 0.6), (1.0, 30.0), (1e-4, 41.0)])
def test_rdp_over_time_is_the_fresh_composition(rate, noise):
    of_plan = plan(rate, noise, 4000)
    for updates in (1, 10, 3999, 4001, 10**6):
        event = dp_sgd_event(rate, noise, updates)
        fresh = dp_accounting.rdp.RdpAccountant(orders=RDP_ORDERS).compose(event)
        expected = fresh.get_epsilon(1e-5)
        found = of_plan.epsilon_after(updates)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert of_plan.reported_at(updates) == updates


def test_pld_over_time_is_that_of_the_next_grid_point(monkeypatch):
    rate, noise, planned, composed = 0.01, 2.487, 4000, []
    of_plan = plan(rate, noise, planned, "pld")

    def fresh(updates):
        return epsilon_of(dp_sgd_event(rate, noise, updates), 1e-5, "pld")

    for updates in (400, 3999, 4001):
        at = of_plan.reported_at(updates)
        assert updates <= at <= math.ceil(1.15 * updates)
        assert of_plan.epsilon_after(updates) == fresh(at) >= fresh(updates)
    monkeypatch.setattr(accountants, "_pld_epsilon", lambda *args: composed.append(args) or 1.0)
    for updates in range(3500, planned + 1):
        of_plan.epsilon_after(updates)
    assert not composed  # each was composed once, and kept


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(1, 10**7), st.data())
def test_every_time_has_a_near_grid_point_not_before_it(planned, data):
    of_plan = plan(0.01, 1.0, planned, "pld")
    updates = data.draw(st.integers(1, planned))
    at = of_plan.reported_at(updates)
    assert updates <= at <= min(planned, math.ceil(1.15 * updates) + 1)
    assert of_plan.reported_at(at) == at
    assert of_plan.reported_at(planned) == planned
    assert of_plan.reported_at(planned + 1) == planned + 1


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_before_the_first_update_and_without_noise(accountant):
    assert plan(0.1, 1.0, 10, accountant).epsilon_after(0) == 0
    noiseless = plan(0.1, 0.0, 10, accountant)
    assert noiseless.claimed_epsilon_after(0) == 0
    assert noiseless.claimed_epsilon_after(1) == math.inf


@each("updates", [-1, 1.5, math.nan, "3", None, True])
def test_bad_times_are_rejected(updates):
    with pytest.raises(ValueError, match="Expected updates to be a whole number >= 0"):
        plan(0.1, 1.0, 10).epsilon_after(updates)


def test_each_name_has_an_accountant():
    known = [accountants.accountant_of(name) for name in accountants.ACCOUNTANTS]
    assert len({each.in_words for each in known}) == len(known)
    with pytest.raises(ValueError, match="Expected accountant"):
        accountants.accountant_of("moments")
