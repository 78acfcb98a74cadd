"""Noise multipliers measured independently for the papers' settings, and tensorflow-privacy.

The figures were obtained with dp_accounting's own accountants and calibration, at delta = 1e-5.
"""

import re

import dp_accounting
import dp_accounting.pld
import pytest

from tfdpnorm.privacy import (
    PrivacyBudget,
    calibrate_noise_multiplier,
    dp_sgd_event,
    epsilon_of,
    make_plan,
)
from tfdpnorm.privacy.profiles import composed_profile, true_positive_rate

TABLE = [
    # sampling rate, updates, epsilon, accountant, sigma
    (0.01, 4000, 1, "rdp", 2.684),
    (0.01, 4000, 1, "pld", 2.487),
    (0.01, 4000, 0.05, "rdp", 41.00),
    (1 / 49, 2450, 7.42, "rdp", 0.972),
    (0.05, 2000, 1, "rdp", 9.115),
]


@pytest.mark.parametrize("rate, updates, epsilon, accountant, sigma", TABLE)
def test_calibration_meets_the_measured_noise(rate, updates, epsilon, accountant, sigma):
    """Within 0.15 %, printed digits included; 1 % at epsilon <= .1, where orders are finer here."""
    budget = PrivacyBudget(epsilon, 1e-5)
    found = calibrate_noise_multiplier(budget, rate, updates, accountant)
    half_digit = 0.00051 if sigma < 10 else 0.0051
    tolerance = half_digit + sigma * (0.01 if epsilon <= 0.1 else 0.0015)
    assert found == pytest.approx(sigma, abs=tolerance)
    reached = epsilon_of(dp_sgd_event(rate, found, updates), 1e-5, accountant)
    assert 0.999 * epsilon <= reached <= epsilon


@pytest.mark.skipif(
    not hasattr(dp_accounting, "TruncatedSubsampledGaussianDpEvent"), reason="dp-accounting 0.4"
)
@pytest.mark.parametrize("batch, most, noise", [(60, None, 2.0), (100, 128, 4.0)])
def test_dp_accounting_charges_a_little_more_for_limited_batches(batch, most, noise):
    """Its second pair is of a replaced example, ours of a displaced one.

    riskcal computes what an attack may reach from its distribution of losses.
    """
    plan = make_plan(
        num_examples=1000,
        expected_batch_size=batch,
        steps=100,
        l2_norm_clip=1.0,
        noise_multiplier=noise,
        delta=1e-5,
        accountant="pld",
        most_per_batch=most,
    )
    accountant = dp_accounting.pld.PLDAccountant().compose(plan.dp_event())
    theirs, ours = accountant.get_epsilon(1e-5), plan.epsilon_after(100)
    unlimited = epsilon_of(dp_sgd_event(batch / 1000, noise, 100), 1e-5, "pld")
    assert unlimited < ours <= 1.0005 * theirs <= 1.025 * ours
    riskcal = pytest.importorskip("riskcal.analysis")
    profile = composed_profile((plan.mechanism(100),), 1e-5)
    for rate in (0.01, 0.1, 0.5):
        theirs = 1 - float(riskcal.get_beta_from_pld(accountant._pld, alpha=rate))
        ours = true_positive_rate(profile, rate)
        assert 0.98 * theirs <= ours <= 1.001 * theirs


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_tensorflow_privacy_says_the_same(accountant):
    num_examples, batch, epochs, noise = 1439, 100, 50, 6.0
    lib = pytest.importorskip("tensorflow_privacy.privacy.analysis.compute_dp_sgd_privacy_lib")
    kind = lib.AccountantType[accountant.upper()]
    text = lib.compute_dp_sgd_privacy_statement(
        num_examples, batch, epochs, noise, 1e-5, used_microbatching=False, accountant_type=kind
    )
    theirs = float(re.search(r"Epsilon assuming Poisson sampling \(\*\):\s+([\d.]+)", text)[1])
    steps = -(-epochs * num_examples // batch)
    plan = make_plan(
        num_examples=num_examples,
        expected_batch_size=batch,
        steps=steps,
        l2_norm_clip=1.0,
        noise_multiplier=noise,
        delta=1e-5,
        accountant=accountant,
        most_per_batch=num_examples,  # Theirs knows no limit.
    )
    # They print three decimals, and count one step more where the division rounds upwards.
    assert plan.epsilon_after(steps) == pytest.approx(theirs, rel=1e-3, abs=6e-4)
