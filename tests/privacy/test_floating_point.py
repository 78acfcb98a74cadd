"""What rounding adds to epsilon: the bounds against brute force."""

import math

import numpy as np
import pytest
from scipy import stats

from tfdpnorm.privacy import added_delta
from tfdpnorm.privacy.added_delta import cell_loss, floating_point_loss, pair_loss


@pytest.mark.parametrize("steps", [32, 45, 64])
@pytest.mark.parametrize("error", [1e-3, 1e-2])
def test_cells_change_by_at_most_the_bound(steps, error):
    """Cells are symmetric about any number: their centres are anywhere within 11.9 stddevs."""
    centres = np.linspace(0, 11.9 * steps, 5001)

    def log_mass(half):
        return np.log(
            stats.norm.sf((centres - half) / steps) - stats.norm.sf((centres + half) / steps)
        )

    exact = log_mass(0.5)
    for moved in (log_mass(0.5 + error), log_mass(0.5 - error)):
        assert np.abs(moved - exact).max() <= cell_loss(error, steps)
    # Both ends in one direction, which the bound covers too.
    shifted = np.log(
        stats.norm.sf((centres - 0.5 - error) / steps)
        - stats.norm.sf((centres + 0.5 - error) / steps)
    )
    assert np.abs(shifted - exact).max() <= cell_loss(error, steps)


def hockey_stick(pairs, c, a):
    """sup_E P(E) - e^a Q(E), exactly, of `pairs` bits whose probabilities differ by e^(+-c)."""
    p = 1 / (1 + math.exp(-c))
    heads = np.arange(pairs + 1)
    one, other = stats.binom.pmf(heads, pairs, p), stats.binom.pmf(heads, pairs, 1 - p)
    return np.maximum(one - math.exp(a) * other, 0).sum()


@pytest.mark.parametrize("pairs, c", [(1, 0.3), (50, 0.1), (2000, 0.01), (20_000, 0.003)])
@pytest.mark.parametrize("epsilon, delta", [(0.0, 1e-2), (1.0, 1e-5), (6.0, 1e-3)])
def test_composition_covers_the_worst_bits(pairs, c, epsilon, delta, monkeypatch):
    """Randomised response is the worst of all pairs of distributions within e^(+-c)."""
    monkeypatch.setattr(added_delta, "pair_loss", lambda: c)
    more, more_delta = floating_point_loss(2 * pairs, epsilon, delta)
    lost = hockey_stick(pairs, c, more / 2)
    assert (1 + math.exp(more / 2 + epsilon)) * lost + math.expm1(more / 2) * delta <= more_delta
    if pairs > 50:
        assert more < 2 * pairs * c  # it is of use


def test_the_figures_of_the_documentation():
    """ResNet-9 of benchmarks/, for 1,000 updates."""
    assert pair_loss() < 3.3e-11
    more, more_delta = floating_point_loss(2_447_946 * 1000, 8.0, 1e-5)
    assert 1e-5 < more < 3e-5
    assert more_delta < 1.2e-3 * 1e-5


def test_its_ends():
    assert floating_point_loss(0, 1.0, 1e-5) == (0.0, 0.0)
    assert floating_point_loss(10, math.inf, 1e-5) == (0.0, 0.0)
    for epsilon in (0.0, 800.0, 1e5):
        more, more_delta = floating_point_loss(1e9, epsilon, 1e-5)
        assert 0 < more < 1e-2 and 0 < more_delta <= 1
    with pytest.raises(ValueError, match="Expected numbers"):
        floating_point_loss(-1, 1.0, 1e-5)
    larger = [floating_point_loss(n, 1.0, 1e-5)[0] for n in (1e3, 1e6, 1e9, 1e12)]
    assert larger == sorted(larger)
