"""Trade-off curves against what is known of them."""

import math

import numpy as np
import pytest
from scipy import stats

from tests.each import each
from tfdpnorm.audit.trade_offs import DPSGDFamily, Gaussian, Lines

POWERS = (0.01, 0.1, 0.3, 0.5, 0.8, 0.99)


def gaussian_delta(mu, epsilon):
    """Balle and Wang (2018), Theorem 8."""
    a, b = mu / 2, epsilon / mu
    return stats.norm.cdf(a - b) - math.exp(epsilon) * stats.norm.cdf(-a - b)


@each("power", POWERS)
def test_lines_touch_the_gaussian_curve_from_below(power):
    epsilons = np.linspace(0, 4, 200)
    lines = Lines(epsilons, [gaussian_delta(0.8, e) for e in epsilons])
    exact = Gaussian(0.8).least_false_positives(power)
    assert exact * (1 - 1e-3) - 1e-12 <= lines.least_false_positives(power) <= exact * (1 + 1e-9)


@pytest.mark.slow
def test_sampled_lots_leak_less_and_no_attack_beats_the_curve():
    """One update: the best test is a threshold on the one number, whose rates are known."""
    rate, noise = 0.5, 1.5
    curve = DPSGDFamily(rate, 1, 1e-5).curve(1 / noise)
    for threshold in np.linspace(-3, 5, 17):
        false_positives = stats.norm.sf(threshold / noise)
        power = (1 - rate) * false_positives + rate * stats.norm.sf((threshold - 1) / noise)
        least = curve.least_false_positives(power)
        assert least <= false_positives + 1e-9
        # The other direction of add and remove is worse somewhere, and the curve is for both.
        assert least >= 0.7 * false_positives - 1e-6
        assert least >= Gaussian(1 / noise).least_false_positives(power) - 1e-9
