"""Epsilon over time: the fast values are the freshly composed ones."""

import math

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdpnorm.privacy import RDP_ORDERS, EpsilonCurve, dp_sgd_event, epsilon_of

TIMES = [1, 2, 3, 10, 99, 500, 1234, 3999, 4000, 4001, 10**6]


@pytest.mark.parametrize(
    "rate, noise", [(0.01, 2.684), (0.01, 0.6), (1.0, 30.0), (0.3, 5.0), (1e-4, 41.0)]
)
def test_rdp_curve_is_the_fresh_composition(rate, noise):
    curve = EpsilonCurve(rate, noise, 4000, 1e-5, "rdp")
    for updates in TIMES:
        event = dp_sgd_event(rate, noise, updates)
        fresh = dp_accounting.rdp.RdpAccountant(orders=RDP_ORDERS).compose(event)
        expected = fresh.get_epsilon(1e-5)
        assert curve.epsilon_after(updates) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert curve.reported_at(updates) == updates


def test_pld_curve_reports_the_next_grid_point():
    rate, noise, planned = 0.01, 2.487, 4000
    curve = EpsilonCurve(rate, noise, planned, 1e-5, "pld")

    def fresh(updates):
        return epsilon_of(dp_sgd_event(rate, noise, updates), 1e-5, "pld")

    for updates in (17, 400, 2345, 3999, 4000, 4001):
        at = curve.reported_at(updates)
        assert updates <= at <= math.ceil(1.15 * updates)
        assert curve.epsilon_after(updates) == fresh(at) >= fresh(updates)
    assert curve.reported_at(planned) == planned
    assert curve.reported_at(planned + 1) == planned + 1


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(1, 10**7), st.data())
def test_every_time_has_a_near_grid_point_not_before_it(planned, data):
    curve = EpsilonCurve(0.01, 1.0, planned, 1e-5, "pld")
    updates = data.draw(st.integers(1, planned))
    at = curve.reported_at(updates)
    assert updates <= at <= min(planned, math.ceil(1.15 * updates) + 1)
    assert curve.reported_at(at) == at
    assert curve.reported_at(planned) == planned


def test_pld_values_are_composed_once(monkeypatch):
    from tfdpnorm.privacy import epsilon_curve

    calls = []

    def counting(event, delta, accountant):
        calls.append(event)
        return epsilon_of(event, delta, accountant)

    monkeypatch.setattr(epsilon_curve, "epsilon_of", counting)
    curve = EpsilonCurve(0.01, 3.0, 1000, 1e-5, "pld")
    values = [curve.epsilon_after(updates) for updates in range(870, 1001)]
    assert len(calls) <= 3
    assert np.all(np.diff(values) >= 0)


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_before_the_first_update_and_without_noise(accountant):
    assert EpsilonCurve(0.1, 1.0, 10, 1e-5, accountant).epsilon_after(0) == 0
    noiseless = EpsilonCurve(0.1, 0.0, 10, 1e-5, accountant)
    assert noiseless.epsilon_after(0) == 0
    assert noiseless.epsilon_after(1) == math.inf


@pytest.mark.parametrize("updates", [-1, 1.5, math.nan, "3", None, True])
def test_bad_times_are_rejected(updates):
    with pytest.raises(ValueError, match="Expected updates to be a whole number >= 0"):
        EpsilonCurve(0.1, 1.0, 10, 1e-5).epsilon_after(updates)
