"""Replacing one example: divergences by integration, and half the noise of full batches.

The pair itself is tested in tests/privacy/test_mixtures.py.
"""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from tfdpnorm.privacy import RDP_ORDERS, dp_sgd_event, epsilon_of
from trainers.ermis.replace_one import _rdp, replace_one_epsilon

DELTA = 1e-5


def log_density(x, rate, z, centre):
    with_it = np.log(rate) + stats.norm.logpdf(x, centre, z)
    return np.logaddexp(np.log1p(-rate) + stats.norm.logpdf(x, 0, z), with_it)


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
def test_full_batches_are_gaussian_with_half_the_noise(z, updates):
    for accountant in ("rdp", "pld"):
        plain = epsilon_of(dp_sgd_event(1, z / 2, updates), DELTA, accountant)
        found = replace_one_epsilon(1, z, updates, DELTA, accountant)
        assert found == pytest.approx(plain, rel=1e-5)


def test_pld_does_not_compose_deltas_that_rounding_takes():
    with pytest.raises(ValueError, match="^Expected delta of at least 1.4e-08 with the .pld."):
        replace_one_epsilon(1, 3000.0, 10**6, 1e-10, "pld")


def test_zero_noise_and_invalid_arguments():
    assert replace_one_epsilon(0.1, 0, 5, DELTA, "pld") == math.inf
    for settings in [(0, 1, 5, DELTA), (0.1, -1, 5, DELTA), (0.1, 1, 0, DELTA), (0.1, 1, 5, 1)]:
        with pytest.raises(ValueError, match="^Expected "):
            replace_one_epsilon(*settings)
    with pytest.raises(ValueError, match="Expected accountant"):
        replace_one_epsilon(0.1, 1, 5, DELTA, "ac")
