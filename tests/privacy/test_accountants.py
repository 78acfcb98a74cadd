"""The accountants against closed forms, against each other, and at hostile settings."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp.rdp_privacy_accountant import compute_delta
from scipy import optimize, stats

from tests.each import each
from tfdpnorm.privacy import ACCOUNTANTS, RDP_ORDERS, accountants, dp_sgd_event, epsilon_of
from tfdpnorm.privacy.accountants import rdp_of, rdp_to_deltas


def gaussian_delta(epsilon, sigma):
    """Balle & Wang (2018), Theorem 8, for sensitivity 1."""
    a, b = 1 / (2 * sigma), epsilon * sigma
    return stats.norm.cdf(a - b) - math.exp(epsilon + stats.norm.logcdf(-a - b))


def gaussian_epsilon(sigma, delta):
    if gaussian_delta(0.0, sigma) <= delta:
        return 0.0
    return optimize.brentq(lambda e: gaussian_delta(e, sigma) - delta, 0, 500, xtol=1e-12)


def sampled_gaussian_epsilon(rate, sigma, delta):
    """One Poisson-sampled Gaussian: Balle, Barthe & Gaboardi (2018), Theorem 2, removal."""

    def gap(epsilon):
        inner = math.log1p(math.expm1(epsilon) / rate)
        return rate * gaussian_delta(inner, sigma) - delta

    return optimize.brentq(gap, 0, 100, xtol=1e-12) if gap(0.0) > 0 else 0.0


def epsilon(rate, noise, updates, accountant="rdp", delta=1e-5):
    return epsilon_of(dp_sgd_event(rate, noise, updates), delta, accountant)


def test_event_of_sampled_lots():
    assert dp_sgd_event(0.25, 2.0, 7) == dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(0.25, dp_accounting.GaussianDpEvent(2.0)), 7
    )


def test_event_without_noise_or_without_updates():
    assert dp_sgd_event(0.1, 0, 5) == dp_accounting.NonPrivateDpEvent()
    assert dp_sgd_event(0.1, 1.0, 0) == dp_accounting.NoOpDpEvent()
    assert dp_sgd_event(0.1, 0.0, 0) == dp_accounting.NoOpDpEvent()


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_epsilon_of_nothing_and_of_everything(accountant):
    assert epsilon_of(dp_accounting.NoOpDpEvent(), 1e-5, accountant) == 0
    assert epsilon_of(dp_accounting.NonPrivateDpEvent(), 1e-5, accountant) == math.inf
    mixed = dp_accounting.ComposedDpEvent(
        [dp_sgd_event(0.1, 5.0, 3), dp_accounting.NonPrivateDpEvent()]
    )
    assert epsilon_of(mixed, 1e-5, accountant) == math.inf


@pytest.mark.parametrize(
    "arguments, name",
    [
        ((0, 1.0, 1), "sampling_rate"),
        ((1.01, 1.0, 1), "sampling_rate"),
        ((math.nan, 1.0, 1), "sampling_rate"),
        (("0.1", 1.0, 1), "sampling_rate"),
        ((0.1, -1.0, 1), "noise_multiplier"),
        ((0.1, math.inf, 1), "noise_multiplier"),
        ((0.1, math.nan, 1), "noise_multiplier"),
        ((0.1, 1.0, -1), "updates"),
        ((0.1, 1.0, 1.5), "updates"),
        ((0.1, 1.0, math.inf), "updates"),
        ((0.1, 1.0, True), "updates"),
    ],
)
def test_bad_events_are_rejected(arguments, name):
    with pytest.raises(ValueError, match=f"Expected {name} .*, got "):
        dp_sgd_event(*arguments)


@pytest.mark.parametrize("updates", [1, 50, 1000])
@pytest.mark.parametrize("effective_noise", [0.3, 1.0, 5.0, 60.0])
def test_full_batches_against_the_analytic_gaussian(updates, effective_noise):
    exact = gaussian_epsilon(effective_noise, 1e-5)
    noise = effective_noise * math.sqrt(updates)
    pld = epsilon(1, noise, updates, "pld")
    rdp = epsilon(1, noise, updates, "rdp")
    assert exact * (1 - 1e-6) <= pld <= exact * 1.003 + 1e-6
    assert exact <= rdp <= exact * 1.25


@pytest.mark.parametrize("noise", [0.8, 5.0, 60.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
def test_full_batches_by_rdp_are_the_formulas(noise, delta):
    """Mironov (2017), Corollary 3; Canonne, Kamath & Steinke (2020), Proposition 12."""
    a = np.array(RDP_ORDERS)
    converted = 10 * a / (2 * noise**2) + np.log1p(-1 / a) - np.log(delta * a) / (a - 1)
    assert epsilon(1, noise, 10, delta=delta) == pytest.approx(max(0, converted.min()), rel=1e-9)


@each("rdp", [0.0, 1e-3, 0.4, 30.0, math.inf])
def test_deltas_of_renyi_bounds_are_those_of_dp_accounting(rdp):
    epsilons = [0.0, 1e-4, 0.7, 3.0, 60.0, 699.0]
    bounds = rdp * np.sqrt(RDP_ORDERS) if rdp else np.zeros(len(RDP_ORDERS))
    theirs = [compute_delta(RDP_ORDERS, bounds, epsilon)[0] for epsilon in epsilons]
    assert list(rdp_to_deltas(bounds, epsilons)) == theirs
    assert not np.any(rdp_to_deltas(1e-20 * np.ones(len(RDP_ORDERS)), [0.0]) < 1e-11)


@pytest.mark.parametrize("noise, rate", [(0.6, 0.001), (1.0, 0.03)])
def test_one_sampled_update_against_its_closed_form(rate, noise):
    exact = sampled_gaussian_epsilon(rate, noise, 1e-6)
    pld = epsilon(rate, noise, 1, "pld", delta=1e-6)
    assert exact * (1 - 1e-6) <= pld <= exact * 1.003 + 1e-6
    assert epsilon(rate, noise, 1, "rdp", delta=1e-6) >= exact


def test_added_orders_lower_a_small_epsilon():
    event = dp_sgd_event(0.01, 41.0, 4000)
    default = dp_accounting.rdp.RdpAccountant().compose(event).get_epsilon(1e-5)
    assert epsilon_of(event, 1e-5) < 0.996 * default
    assert set(dp_accounting.rdp.RdpAccountant().orders) < set(RDP_ORDERS)


@pytest.mark.parametrize("rate, noise", [(1e-6, 1000.0), (1e-5, 100.0), (1e-3, 1e4), (0.3, 1e5)])
def test_rounding_noise_does_not_hide_a_tiny_loss(rate, noise):
    """dp_accounting's sum yields zeros and negative numbers here."""
    rdp = rdp_of(dp_sgd_event(rate, noise, 1))
    # To second order in q, which is all there is at this noise, RDP is order * q^2 / (2 z^2).
    small = np.array(RDP_ORDERS) * rate**2 / (2 * noise**2)
    assert np.all(rdp >= 0.5 * small)
    whole = np.array([order >= 2 and order.is_integer() for order in RDP_ORDERS])
    assert np.all(rdp[whole] >= small[whole] * (1 - 1e-6))
    assert epsilon(rate, noise, 10**9, delta=1e-9) > 0


def test_an_unknown_divergence_counts_as_infinite(monkeypatch):
    monkeypatch.setattr(
        dp_accounting.rdp.RdpAccountant, "rdp", property(lambda self: self.orders * np.nan)
    )
    assert epsilon(0.01, 2.0, 10) == math.inf


@pytest.mark.parametrize("rate, noise", [(0.01, 1.0), (0.6, 3.0)])
def test_orders_between_whole_ones_are_bounded_by_integration(rate, noise):
    """The moment E_0[(mixture / N(0, z^2))^order] over a fine grid, a sum that is exact here."""
    x = np.linspace(-40 * noise, 40 * noise + 20, 100_001)
    log_ratio = np.logaddexp(np.log1p(-rate), np.log(rate) + (2 * x - 1) / (2 * noise**2))
    log_base = -(x**2) / (2 * noise**2) - 0.5 * np.log(2 * np.pi * noise**2)
    for order, bound in zip(RDP_ORDERS, rdp_of(dp_sgd_event(rate, noise, 1)), strict=True):
        if order < 12:
            moment = np.exp(log_base + order * log_ratio).sum() * (x[1] - x[0])
            exact = np.log(moment) / (order - 1)
            assert bound >= exact * (1 - 1e-6)  # dp_accounting 0.4.3 cuts the series short
            assert order < 2 or bound <= exact * 1.2


def test_other_mechanisms_do_not_get_the_gaussian_bound():
    gaussian = dp_sgd_event(0.3, 2.0, 3)
    other = dp_accounting.dp_event.RepeatAndSelectDpEvent(dp_accounting.GaussianDpEvent(0.5), 3, 1)
    both = rdp_of(dp_accounting.ComposedDpEvent([gaussian, other]))
    alone = rdp_of(other)
    accountant = dp_accounting.rdp.RdpAccountant(orders=RDP_ORDERS)
    np.testing.assert_allclose(alone, accountant.compose(other).rdp)
    assert np.all(both >= alone)
    whole = np.array([order.is_integer() for order in RDP_ORDERS])
    np.testing.assert_allclose(both[whole], (alone + rdp_of(gaussian))[whole])


@each(
    "error, why",
    [
        (ValueError("deltas are not in non-increasing order: deltas=[0.1, 0.2]"), "rounding"),
        (MemoryError("Unable to allocate 3.48 TiB"), "does not fit into memory"),
    ],
)
def test_a_distribution_that_cannot_be_computed_is_rejected(error, why, monkeypatch):
    def fails(self, delta):
        raise error

    monkeypatch.setattr(accountants.PLDAccountant, "get_epsilon", fails)
    with pytest.raises(ValueError, match=f"compute 7 update.* rate 0.1 .*{why}.*Use .rdp"):
        epsilon(0.1, 1.0, 7, "pld")


@pytest.mark.parametrize(
    ("noise", "updates", "delta"),
    [(3000.0, 10**6, 1e-10), (1000.0, 10**6, 1e-11), (300.0, 5 * 10**4, 1e-12)],
)
def test_pld_does_not_compose_deltas_that_rounding_takes(noise, updates, delta):
    """At these dp_accounting's epsilon is below the exact one by 0.1 to 1.4 per cent."""
    least = 2**-46 * updates
    with pytest.raises(ValueError, match=f"{least:.2g}"):
        epsilon(1, noise, updates, "pld", delta)
    exact = gaussian_epsilon(noise / math.sqrt(updates), 1.01 * least)
    assert exact <= epsilon(1, noise, updates, "pld", 1.01 * least) <= 1.05 * exact


@pytest.mark.parametrize("noise", [1e-100, 1e100])
def test_the_largest_and_the_least_noise_have_an_epsilon(noise):
    found = epsilon(0.1, noise, 3)
    assert found == 0 if noise > 1 else found > 1e199
