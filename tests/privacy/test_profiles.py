"""What a profile allows an attacker: against the closed forms of the Gaussian mechanism."""

import math

import numpy as np
import pytest
from scipy import stats

from tests.each import each
from tfdpnorm.privacy.accountants import RDP_ORDERS, epsilon_at, of_rdp, rdp_of_update
from tfdpnorm.privacy.profiles import (
    composed_profile,
    gaussian_mu,
    loss_at,
    of_nothing,
    plus,
    smallest,
    true_positive_rate,
)

MUS = [0.02, 0.2, 1.0, 3.0]


def gaussian(mu):
    """The exact profile of the Gaussian mechanism with sensitivity mu and noise 1."""

    def profile(epsilons):
        near, far = mu / 2 - epsilons / mu, -mu / 2 - epsilons / mu
        return stats.norm.cdf(near) - np.exp(epsilons + stats.norm.logcdf(far))

    return profile


def best_rate(rate, mu):
    return stats.norm.cdf(stats.norm.ppf(rate) + mu)


@each("mu", MUS)
@each("rate", [0.001, 0.01, 0.3])
def test_true_positive_rates_of_the_exact_profile(mu, rate):
    found = true_positive_rate(gaussian(mu), rate)
    assert best_rate(rate, mu) <= found + 1e-12 and found <= 1.001 * best_rate(rate, mu)


@each("mu", MUS)
@each("probability", [1e-10, 1e-5, 0.1])
def test_the_loss_of_the_exact_profile(mu, probability):
    """Of the Gaussian mechanism it is normal, with mean mu^2 / 2 and standard deviation mu."""
    exact = mu * mu / 2 + mu * stats.norm.isf(probability)
    found = loss_at(gaussian(mu), probability)
    # What the profile alone bounds is a little more.
    assert exact <= found <= exact + 0.6 * mu
    assert epsilon_at(gaussian(mu), probability) < exact


def test_the_loss_of_a_profile_that_bounds_none():
    assert loss_at(of_nothing, 1e-5) == 0
    assert loss_at(lambda epsilons: np.full(len(epsilons), 1e-5), 1e-5) == math.inf
    always = loss_at(lambda epsilons: np.full(len(epsilons), 0.5e-5), 1e-5)
    assert always == pytest.approx(math.log(2))  # at epsilon 0


@each("mu", MUS)
def test_mu_of_the_exact_profile(mu):
    assert mu <= gaussian_mu(gaussian(mu)) <= mu + 0.004


@each("epsilon", [0.5, 1.0, 1.37])
def test_mu_of_a_coin_that_lies_with_a_probability(epsilon):
    """Whose best attack has a corner, between two of the rates that are looked at."""
    rate = 1 / (1 + math.exp(epsilon))

    def profile(epsilons):
        return np.maximum(0.0, (math.exp(epsilon) - np.exp(epsilons)) * rate)

    mu = gaussian_mu(profile)
    assert best_rate(rate, mu) >= 1 - rate == pytest.approx(true_positive_rate(profile, rate))
    assert mu == pytest.approx(-2 * stats.norm.ppf(rate), abs=0.005)


@each("mu", MUS[1:3])
def test_profiles_of_accountants_are_never_too_small(mu):
    """By PLD it is near the closed form; by RDP alone it is valid and looser."""
    by_both = composed_profile(((1.0, 2 / mu, 4),), 1e-5)
    by_rdp = of_rdp(4 * rdp_of_update(1.0, 2 / mu))
    assert len(rdp_of_update(1.0, 2 / mu)) == len(RDP_ORDERS)
    for rate in (0.001, 0.3):
        exact = best_rate(rate, mu)
        assert exact <= true_positive_rate(by_both, rate) <= 1.002 * exact
        assert exact <= true_positive_rate(by_rdp, rate) <= min(1, 1.7 * exact)
    assert mu <= gaussian_mu(by_both) <= 1.001 * mu + 0.004
    assert mu < gaussian_mu(by_rdp) < 2 * mu + 0.01


def test_additions_to_delta_count():
    plain, more = gaussian(0.5), plus(gaussian(0.5), 1e-3)
    assert true_positive_rate(more, 0.01) >= true_positive_rate(plain, 0.01) + 0.9e-3
    assert gaussian_mu(more) > gaussian_mu(plain)
    assert epsilon_at(more, 2e-3) == pytest.approx(epsilon_at(plain, 1e-3))
    assert epsilon_at(more, 0.9e-3) == math.inf


def test_a_profile_that_bounds_nothing():
    def useless(epsilons):
        return np.ones(len(epsilons))

    assert true_positive_rate(useless, 0.01) == 1 and gaussian_mu(useless) == math.inf
    assert epsilon_at(useless, 0.5) == math.inf
    both = smallest([useless, gaussian(1.0)])
    assert gaussian_mu(both) == gaussian_mu(gaussian(1.0))


@each("delta", [0.0, 1.0, -1, "a"])
def test_bad_deltas(delta):
    with pytest.raises(ValueError, match="Expected delta"):
        epsilon_at(of_nothing, delta)


@each("delta", [1e-2, 1e-5, 1e-9])
@each("mu", MUS)
def test_epsilon_at_a_delta(mu, delta):
    epsilon = epsilon_at(gaussian(mu), delta)
    assert gaussian(mu)(np.array([epsilon]))[0] <= delta
    if epsilon > 0:
        assert gaussian(mu)(np.array([epsilon * (1 - 1e-5) - 1e-7]))[0] > delta
