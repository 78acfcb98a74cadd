"""Ermis & Cemgil's accountants: their formulas, where they hold, and beside RDP and PLD."""

import math

import pytest

from tests.privacy.test_accountants import sampled_gaussian_epsilon
from tfdpnorm.privacy import PrivacyBudget
from trainers.ermis import claimed
from trainers.ermis.comparison import ADJACENCIES, ALL_ACCOUNTANTS, noise_stated, stated

DELTA = 1e-5
MNIST, DIGITS = (0.01, 20000), (0.05, 2000)


def by_hand_ac(noise_ratio, rate, updates, delta):
    """Theorems 1 to 3 of the paper, one after the other."""
    slack = delta / 2
    step = math.sqrt(2 * math.log(1.25 / (delta / 2 / updates / rate))) / noise_ratio
    lot = math.log(1 + rate * (math.exp(step) - 1))
    return math.sqrt(2 * updates * math.log(1 / slack)) * lot + updates * lot * (math.exp(lot) - 1)


def by_hand_zcdp(noise_ratio, rate, updates, delta):
    """Equation 14, then 13."""
    step = math.sqrt(2 * math.log(1.25 * rate / delta)) / noise_ratio
    lot = math.log(1 + rate * (math.exp(step) - 1))
    tau = 2 * math.log(1.25 / delta) / lot**2
    return updates / (2 * tau) + 2 * math.sqrt(updates / (2 * tau) * math.log(1 / delta))


@pytest.mark.parametrize("settings", [(46.0, *MNIST), (9.73, *DIGITS), (3.0, 0.3, 7)])
def test_the_printed_formulas(settings):
    found = claimed.claimed_epsilon("ac", *settings, DELTA)
    assert found == pytest.approx(by_hand_ac(*settings, DELTA), rel=1e-9)
    assert claimed.claimed_epsilon("zcdp", *settings, DELTA) == pytest.approx(
        by_hand_zcdp(*settings, DELTA), rel=1e-9
    )


@pytest.mark.parametrize("accountant", ["ac", "zcdp"])
@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 10.0, 1e4])
@pytest.mark.parametrize("lots", [MNIST, DIGITS, (1, 1), (0.5, 10**8)])
def test_noise_and_epsilon_are_inverse(accountant, epsilon, lots):
    noise = claimed.gaussian_noise(*claimed.step_budget(accountant, epsilon, DELTA, *lots))
    assert claimed.claimed_epsilon(accountant, noise, *lots, DELTA) == pytest.approx(
        epsilon, rel=1e-6
    )


def test_zcdp_as_printed_is_refuted_by_one_update():
    """Where the exact epsilon has a closed form, the claim is below it."""
    assert claimed.claimed_epsilon("zcdp", 0.4, 1e-3, 1, DELTA) < 1.24
    assert sampled_gaussian_epsilon(1e-3, 0.4, DELTA) > 1.56
    assert not stated("zcdp", 1e-3, 0.4, 1, DELTA).holds
    # Of many updates, the claim can be a fifth of it.
    claim, certified = (stated(n, 1e-4, 0.4, 100, DELTA).epsilon for n in ("zcdp", "pld"))
    assert 4 * claim < certified


def side_by_side(sampling_rate, noise_multiplier, updates):
    """What all accountants state of the same updates."""
    return [
        stated(accountant, sampling_rate, noise_multiplier, updates, DELTA, adjacency)
        for adjacency in ADJACENCIES
        for accountant in ALL_ACCOUNTANTS
    ]


def test_which_hold():
    found = {(s.accountant, s.adjacency): s for s in side_by_side(DIGITS[0], 19.46, 2000)}
    assert len(found) == 8
    # Half the noise ratio when an example is replaced: epsilon_i is above 1 only there.
    assert [found[n, "add_or_remove_one"].holds for n in ALL_ACCOUNTANTS] == [
        True,
        False,
        True,
        True,
    ]
    assert [found[n, "replace_one"].holds for n in ALL_ACCOUNTANTS] == [True, False, True, True]
    low = side_by_side(DIGITS[0], 7.0, 2000)
    assert [s.holds for s in low] == [True, False, True, True, False, False, True, True]
    assert all(bool(s.because) != s.holds for s in low)
    assert stated("zcdp", 1, 22.0, 20, DELTA).holds  # nothing is sampled
    assert not stated("ac", 0.1, 0, 5, DELTA).holds


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: stated("moments", 0.1, 1, 5, DELTA), "accountant"),
        (lambda: stated("ac", 0.1, 1, 5, DELTA, "hamming"), "adjacency"),
        (lambda: stated("ac", 0, 1, 5, DELTA), "sampling_rate"),
        (lambda: stated("zcdp", 1.5, 1, 5, DELTA), "sampling_rate"),
        (lambda: stated("zcdp", 1e-6, 1, 5, DELTA), "sampling_rate"),
        (lambda: stated("ac", 0.1, math.inf, 5, DELTA), "noise_multiplier"),
        (lambda: stated("ac", 0.1, 1, 0, DELTA), "updates"),
        (lambda: stated("zcdp", 0.1, 1, 5, 1.0), "delta"),
        (lambda: noise_stated("ac", PrivacyBudget(1.0, DELTA), 0.1, 5), "accountant"),
        (lambda: noise_stated("rdp", 1.0, 0.1, 5), "budget"),
        (lambda: claimed.step_budget("ac", 1, DELTA, 0.1, 5, 1.0), "composition_share"),
        (lambda: claimed.step_budget("ac", 0, DELTA, 0.1, 5), "epsilon"),
        (lambda: claimed.step_budget("zcdp", 1, DELTA, 0.1, 5, 0), "step_delta"),
    ],
)
def test_bad_arguments_are_rejected(call, name):
    with pytest.raises(ValueError, match=f"^Expected {name} "):
        call()
