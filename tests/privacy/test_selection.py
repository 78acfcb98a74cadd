"""What choosing the best of a random number of runs costs."""

import math

import numpy as np
import pytest
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant

from tests.each import each
from tfdpnorm.privacy.accountants import (
    RDP_ORDERS,
    dp_sgd_event,
    rdp_of,
    rdp_to_epsilon,
)
from tfdpnorm.privacy.selection import NumberOfRuns, selection_rdp

EVENT = dp_sgd_event(0.01, 1.1, 1000)
SHAPES = [0, 0.5, 1, 3, math.inf]


@pytest.mark.quick_cases("1-0", "1-0.5", "1-1")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [1, 1.5, 8, 300])
def test_equals_dp_accounting(shape, mean):
    if mean == 1 and shape != 1 and not math.isinf(shape):
        mean = 1.0001  # there dp_accounting divides 0 by 0
    event = RepeatAndSelectDpEvent(EVENT, mean, shape)
    accountant = RdpAccountant(orders=RDP_ORDERS).compose(event)
    found = rdp_to_epsilon(selection_rdp(rdp_of(EVENT), NumberOfRuns(mean, shape)), 1e-5)
    np.testing.assert_allclose(found, accountant.get_epsilon(1e-5), rtol=1e-6)


@pytest.mark.quick_cases("1.0-0", "1.0-0.5", "1.0-1")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [1.0, 2.0, 9.0])
def test_draws_have_the_distribution(shape, mean):
    runs, rng = NumberOfRuns(mean, shape), np.random.default_rng(0)
    draws = np.array([runs.draw(rng) for _ in range(20_000)])
    assert abs(draws.mean() - mean) <= 5 * draws.std() / math.sqrt(len(draws)) + 1e-12
    assert draws.min() >= (0 if math.isinf(shape) else 1)
    if not math.isinf(shape) and mean > 1:
        # Definition 1: P[K = k + 1] / P[K = k] = (1 - gamma) (k + eta) / (k + 1).
        for k in (1, 2):
            now, later = (draws == k).sum(), (draws == k + 1).sum()
            expected = (1 - runs.gamma) * (k + runs.shape) / (k + 1)
            spread = later / now * math.sqrt(1 / now + 1 / later)
            assert abs(later / now - expected) < 5 * spread


@each("mean", [0, 0.5, -1, math.inf, math.nan, "8"])
def test_bad_means(mean):
    with pytest.raises((ValueError, TypeError), match="mean"):
        NumberOfRuns(mean)


@each("shape", [-0.5, math.nan])
def test_bad_shapes(shape):
    with pytest.raises(ValueError, match="shape"):
        NumberOfRuns(4, shape)


def test_bounds_and_orders_that_do_not_match():
    with pytest.raises(ValueError, match="Expected a bound for each of the orders"):
        selection_rdp([1.0], NumberOfRuns(2))
