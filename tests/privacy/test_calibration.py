"""Calibrated noise keeps the budget, and wastes little of it."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdpnorm.privacy import (
    ACCOUNTANTS,
    PrivacyBudget,
    calibrate_noise_multiplier,
    dp_sgd_event,
    epsilon_of,
)
from tfdpnorm.privacy.calibration import _search


def check(epsilon, delta, rate, updates, accountant):
    noise = calibrate_noise_multiplier(PrivacyBudget(epsilon, delta), rate, updates, accountant)
    reached = epsilon_of(dp_sgd_event(rate, noise, updates), delta, accountant)
    assert 0.98 * epsilon <= reached <= epsilon
    assert noise == float(f"{noise:.6e}"), "more digits than are printed"
    return noise


@pytest.mark.slow
@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    st.floats(0.02, 50),
    st.sampled_from([1e-4, 1e-5, 1e-8]),
    st.one_of(st.floats(1e-3, 0.4), st.just(1.0)),
    st.integers(1, 20_000),
)
def test_rdp_spends_the_budget(epsilon, delta, rate, updates):
    check(epsilon, delta, rate, updates, "rdp")


@pytest.mark.slow
@settings(max_examples=3, deadline=None, derandomize=True)
@given(
    st.floats(0.05, 30),
    st.sampled_from([1e-5, 1e-8]),
    st.one_of(st.floats(3e-3, 0.4), st.just(1.0)),
    st.integers(10, 20_000),
)
def test_pld_spends_the_budget(epsilon, delta, rate, updates):
    check(epsilon, delta, rate, updates, "pld")


@pytest.mark.quick_cases(
    "1.0-1e-10-0.01-4000-pld", "0.1-1e-06-1.0-1-rdp", "0.93-1e-05-0.01-4000-rdp"
)
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize(
    "epsilon, delta, rate, updates",
    [
        (0.003, 1e-5, 0.01, 4000),
        (300.0, 1e-5, 0.01, 4000),
        (3000.0, 1e-5, 0.01, 4000),
        (1.0, 1e-10, 0.01, 4000),
        (1.0, 1e-6, 1e-4, 10),
        (0.1, 1e-6, 1.0, 1),
        # Near the thresholds of the discretisation rule, where the PLD's epsilon may jump.
        (0.93, 1e-5, 0.01, 4000),
        (0.185, 1e-5, 0.01, 4000),
        (28.5, 1e-5, 0.01, 4000),
    ],
)
def test_extreme_settings(epsilon, delta, rate, updates, accountant):
    check(epsilon, delta, rate, updates, accountant)


@pytest.mark.parametrize("ratio", [0.5, 0.9, 0.9995, 1.0005, 1.003, 1.05, 2.0])
@pytest.mark.parametrize("target", [0.01, 1.0, 80.0])
def test_guesses_just_above_the_target_are_not_taken(target, ratio):
    def reached(noise):
        return noise**-1.5

    noise, epsilon = _search(reached, target, (ratio * target) ** (-1 / 1.5), 0.999, 60)
    assert epsilon == reached(noise)
    assert 0.999 * target <= epsilon <= target


def test_pld_needs_less_noise():
    rdp, pld = (check(1.0, 1e-5, 0.01, 4000, name) for name in ("rdp", "pld"))
    assert pld < 0.95 * rdp


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_an_infinite_budget_needs_no_noise(accountant):
    assert calibrate_noise_multiplier(PrivacyBudget(math.inf, 1e-5), 0.1, 10, accountant) == 0.0


def test_an_epsilon_below_the_last_order_is_rejected():
    with pytest.raises(ValueError, match=r'got epsilon=0 from the rdp.*accountant="pld"'):
        calibrate_noise_multiplier(PrivacyBudget(0.001, 1e-5), 0.01, 4000)
    check(0.001, 1e-5, 0.01, 4000, "pld")


def test_a_delta_that_makes_noise_needless_is_rejected():
    with pytest.raises(ValueError, match="smaller delta"):
        calibrate_noise_multiplier(PrivacyBudget(1.0, 1e-3), 1e-7, 1)


@pytest.mark.parametrize(
    "arguments, name",
    [
        ((1.0, 0.1, 10), "budget"),
        ((None, 0.1, 10), "budget"),
        ((PrivacyBudget(1, 1e-5), 0, 10), "sampling_rate"),
        ((PrivacyBudget(1, 1e-5), 1.5, 10), "sampling_rate"),
        ((PrivacyBudget(1, 1e-5), 0.1, 0), "updates"),
        ((PrivacyBudget(1, 1e-5), 0.1, 10, "moments"), "accountant"),
    ],
)
def test_bad_arguments_are_rejected(arguments, name):
    with pytest.raises(ValueError, match=f"Expected {name} "):
        calibrate_noise_multiplier(*arguments)
