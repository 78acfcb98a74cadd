"""Noise multipliers measured independently for the papers' settings, and tensorflow-privacy.

The figures were obtained with dp_accounting's own accountants and calibration, at delta = 1e-5.
"""

import re

import pytest

from tfdpnorm.privacy import (
    PrivacyBudget,
    calibrate_noise_multiplier,
    dp_sgd_event,
    epsilon_of,
    make_plan,
)

# name, sampling rate, updates, {epsilon: (sigma by RDP, sigma by PLD)}
TABLE = [
    (
        "mnist, lot 600, 40 epochs",
        600 / 60000,
        4000,
        {
            7: (0.788, 0.757),
            3: (1.186, 1.126),
            1: (2.684, 2.487),
            0.5: (4.931, 4.529),
            0.1: (21.54, 19.48),
            0.05: (41.00, 36.57),
        },
    ),
    (
        "mnist, lot 256, 15 epochs",
        256 / 60000,
        3516,
        {7: (0.594, 0.567), 3: (0.774, 0.728), 1: (1.263, 1.185), 0.5: (2.093, 1.937)},
    ),
    (
        "mnist, lot 2048, 40 epochs",
        2048 / 60000,
        1172,
        {7: (1.105, 1.053), 3: (1.929, 1.808), 1: (4.835, 4.463), 0.1: (39.78, 35.98)},
    ),
    (
        "ag news, N 96000, lot 512, 25 epochs",
        512 / 96000,
        4688,
        {7: (0.650, 0.624), 3: (0.873, 0.831), 1: (1.659, 1.549), 0.1: (12.46, 11.27)},
    ),
    (
        "cifar-10, lot 2000, 100 epochs",
        2000 / 50000,
        2500,
        {8: (1.473, 1.399), 4: (2.452, 2.299), 2: (4.392, 4.080)},
    ),
    (
        "cifar-10, lot 512, 40 epochs",
        512 / 50000,
        3907,
        {8: (0.753, 0.725), 4: (1.017, 0.971), 2: (1.567, 1.472)},
    ),
    (
        "cifar-10, q 1/49",
        1 / 49,
        2450,
        {2.89: (1.742, 1.636), 7.42: (0.972, 0.931), 9.88: (0.852, 0.819)},
    ),
    (
        "imagenette, q 1/10",
        1 / 10,
        500,
        {2.89: (3.596, 3.350), 7.42: (1.723, 1.627), 9.88: (1.421, 1.348)},
    ),
    (
        "tiny imagenet, q 1/98",
        1 / 98,
        8820,
        {5: (1.147, 1.094), 10: (0.814, 0.786), 70: (0.442, 0.434)},
    ),
    ("mnist, nu .01", 0.01, 20000, {10: (1.000, 0.963), 1: (5.778, 5.336), 0.1: (48.09, 43.51)}),
    ("digits, nu .05", 0.05, 2000, {10: (1.391, 1.325), 1: (9.115, 8.407), 0.1: (76.05, 68.80)}),
]
SLOW_ROWS = ("mnist, lot 256", "ag news", "cifar-10", "imagenette", "tiny imagenet")
CELLS = [
    pytest.param(
        rate,
        updates,
        epsilon,
        accountant,
        sigma,
        id=f"{name}, {epsilon}, {accountant}",
        marks=[pytest.mark.slow] if name.startswith(SLOW_ROWS) else [],
    )
    for name, rate, updates, row in TABLE
    for epsilon, sigmas in row.items()
    for accountant, sigma in zip(("rdp", "pld"), sigmas, strict=True)
]


@pytest.mark.quick_cases(
    "mnist, lot 600, 40 epochs, 1, rdp",
    "mnist, lot 600, 40 epochs, 1, pld",
    "mnist, lot 600, 40 epochs, 0.5, pld",
)
@pytest.mark.parametrize("rate, updates, epsilon, accountant, sigma", CELLS)
def test_calibration_meets_the_measured_noise(rate, updates, epsilon, accountant, sigma):
    """Within 0.15 %, printed digits included; 1 % at epsilon <= .1, where orders are finer here."""
    budget = PrivacyBudget(epsilon, 1e-5)
    found = calibrate_noise_multiplier(budget, rate, updates, accountant)
    half_digit = 0.00051 if sigma < 10 else 0.0051
    tolerance = half_digit + sigma * (0.01 if epsilon <= 0.1 else 0.0015)
    assert found == pytest.approx(sigma, abs=tolerance)
    reached = epsilon_of(dp_sgd_event(rate, found, updates), 1e-5, accountant)
    assert 0.999 * epsilon <= reached <= epsilon


@pytest.mark.quick_cases(
    "60000-600-40-2.684-rdp", "60000-256-15-0.8-rdp", "1439-100-50-6.0-rdp", "1439-100-50-6.0-pld"
)
@pytest.mark.parametrize("accountant", ["rdp", "pld"])
@pytest.mark.parametrize(
    "num_examples, batch, epochs, noise",
    [(60000, 600, 40, 2.684), (60000, 256, 15, 0.8), (1439, 100, 50, 6.0)],
)
def test_tensorflow_privacy_says_the_same(num_examples, batch, epochs, noise, accountant):
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
    )
    # They print three decimals, and count one step more where the division rounds upwards.
    assert plan.epsilon_after(steps) == pytest.approx(theirs, rel=1e-3, abs=6e-4)
