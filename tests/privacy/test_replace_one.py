"""Replacing one example: the pair against integration, its domination, and the measured figures."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from tfdpnorm.privacy import RDP_ORDERS, dp_sgd_event, epsilon_of
from tfdpnorm.privacy.replace_one import _rdp, pair_delta, replace_one_epsilon

DELTA = 1e-5


def density(x, rate, z, centre):
    return (1 - rate) * stats.norm.pdf(x, 0, z) + rate * stats.norm.pdf(x, centre, z)


def log_density(x, rate, z, centre):
    with_it = np.log(rate) + stats.norm.logpdf(x, centre, z)
    return np.logaddexp(np.log1p(-rate) + stats.norm.logpdf(x, 0, z), with_it)


@pytest.mark.parametrize("rate", [1e-3, 0.05, 0.7, 1.0])
@pytest.mark.parametrize("z", [0.4, 1.0, 12.0])
def test_delta_of_the_pair_by_integration(rate, z):
    x = np.linspace(-1 - 15 * z, 1 + 15 * z, 400_001)
    p, q = density(x, rate, z, 1.0), density(x, rate, z, -1.0)
    for epsilon in (-1.5, -0.01, 0.0, 1e-4, 0.3, 2.0):
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0])
        assert pair_delta(epsilon, rate, z) == pytest.approx(exact, rel=1e-6, abs=1e-9)


def test_delta_of_the_pair_stays_finite_where_ratios_overflow():
    epsilon = np.array([-5e3, -800.0, 0.0, 800.0, 5e3])
    delta = pair_delta(epsilon, 0.3, 0.02)
    assert np.all(np.isfinite(delta)) and np.all(np.diff(delta) <= 0)
    assert delta[0] == 1 and delta[-1] == 0


def test_no_other_gradients_are_worse():
    """Pairs of gradients of norm <= 1 in the plane, against the opposite ones, on a grid."""
    rng = np.random.default_rng(3)
    for _ in range(12):
        z, rate = rng.uniform(0.5, 3), rng.uniform(0.02, 1)
        first, second = (
            rng.uniform(0, 1) ** 0.3 * np.array([np.cos(a), np.sin(a)])
            for a in rng.uniform(0, 2 * np.pi, 2)
        )
        line = np.linspace(-1 - 8 * z, 1 + 8 * z, 401)
        x, y = np.meshgrid(line, line)

        def lot(gradient, x=x, y=y, z=z, rate=rate):
            square = (x - gradient[0]) ** 2 + (y - gradient[1]) ** 2
            with_it = np.exp(-square / (2 * z**2))
            without = np.exp(-(x**2 + y**2) / (2 * z**2))
            return (rate * with_it + (1 - rate) * without) / (2 * np.pi * z**2)

        p, q = lot(first), lot(second)
        for epsilon in (-0.5, 0.0, 0.2, 1.0):
            area = (line[1] - line[0]) ** 2
            delta = np.maximum(p - math.exp(epsilon) * q, 0).sum() * area
            assert delta <= pair_delta(epsilon, rate, z) + 1e-6


@pytest.mark.slow_cases("0.01-1.0", "0.2-0.7")
@pytest.mark.parametrize("rate, z", [(0.01, 1.0), (0.2, 0.7), (0.6, 5.0)])
def test_renyi_divergences_by_integration(rate, z):
    for order, found in zip(RDP_ORDERS, _rdp(rate, z), strict=True):
        if order in (1.5, 4.0, 12.0):
            x = np.linspace(-1 - 14 * z, 2 * order + 14 * z, 1_000_001)
            p, q = (log_density(x, rate, z, centre) for centre in (1.0, -1.0))
            moment = integrate.simpson(np.exp(order * p + (1 - order) * q), x=x)
            assert found == pytest.approx(math.log(moment) / (order - 1), rel=1e-6)


@pytest.mark.parametrize("z, updates", [(5.0, 1), (7.0, 100)])
def test_whole_data_sets_are_gaussian_mechanisms_of_half_the_noise(z, updates):
    for accountant in ("rdp", "pld"):
        plain = epsilon_of(dp_sgd_event(1, z / 2, updates), DELTA, accountant)
        found = replace_one_epsilon(1, z, updates, DELTA, accountant)
        assert found == pytest.approx(plain, rel=1e-5)


# q, T, noise over the clipping norm, epsilon by PLD. Measured apart from this code.
MEASURED = [
    (0.01, 20000, 2 * 8.24, 0.614),
    (0.01, 20000, 2 * 2.68, 2.12),
    (0.01, 20000, 2.68, 4.66),
    (0.05, 2000, 2 * 9.73, 0.845),
    (0.05, 2000, 2 * 2.97, 3.16),
    (0.05, 2000, 2.97, 7.07),
    (100 / 1439, 1439, 2 * 2.97, 3.81),
    (100 / 1439, 1439, 2.97, 8.61),
    (0.01, 20000, 2 * 2.68 / math.sqrt(2), 3.13),  # two layers, each clipped by itself
    (0.05, 2000, 2 * 2.97 / math.sqrt(2), 4.70),
]


@pytest.mark.parametrize("rate, updates, z, epsilon", MEASURED)
def test_measured_figures(rate, updates, z, epsilon):
    by_pld = replace_one_epsilon(rate, z, updates, DELTA, "pld")
    by_rdp = replace_one_epsilon(rate, z, updates, DELTA)
    assert by_pld == pytest.approx(epsilon, rel=4e-3)
    assert by_pld <= by_rdp <= 1.15 * by_pld
    one_example_less = epsilon_of(dp_sgd_event(rate, z, updates), DELTA, "pld")
    assert one_example_less < by_pld


def test_no_noise_and_bad_arguments():
    assert replace_one_epsilon(0.1, 0, 5, DELTA, "pld") == math.inf
    for settings in [(0, 1, 5, DELTA), (0.1, -1, 5, DELTA), (0.1, 1, 0, DELTA), (0.1, 1, 5, 1)]:
        with pytest.raises(ValueError, match="^Expected "):
            replace_one_epsilon(*settings)
    with pytest.raises(ValueError, match="Expected accountant"):
        replace_one_epsilon(0.1, 1, 5, DELTA, "ac")
