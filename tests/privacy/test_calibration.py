"""Calibrated noise keeps the budget, and wastes little of it."""

import math

import pytest

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


@pytest.mark.parametrize(
    "epsilon, delta, rate, updates, accountant",
    [
        (1.0, 1e-10, 0.01, 4000, "pld"),
        (0.1, 1e-6, 1.0, 1, "rdp"),
        # Near a threshold of the discretisation rule, where the PLD's epsilon may jump.
        (0.93, 1e-5, 0.01, 4000, "pld"),
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
