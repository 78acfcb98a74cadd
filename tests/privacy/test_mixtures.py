"""Mixtures of Gaussians: the loss on a grid against integration, and no rows that are worse."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, interpolate, stats

from tfdpnorm.privacy.mixtures import added, composed_losses, losses_of, removed
from trainers.ermis.replace_one import replaced

PAIRS = {"removed": removed, "added": added, "replaced": replaced}
INTERVAL = 1 / 256  # a power of two: multiples are exact
CASES = [(1e-3, 1.0, 1), (0.05, 0.4, 3), (1.0, 3.0, 4)]


def log_mixture(x, rate, z, rows, sign):
    """The logarithm of the density with `rows` rows that all point in one direction, or in none."""
    drawn = np.arange(rows + 1)
    weights = stats.binom.logpmf(drawn, rows, rate)
    terms = weights + stats.norm.logpdf(x[:, None], sign * drawn, z)
    return np.logaddexp.reduce(terms, axis=1)


def log_pair(name, x, rate, z, rows):
    signs = {"removed": (1, 0), "added": (0, -1), "replaced": (1, -1)}[name]
    return [log_mixture(x, rate, z, rows, sign) for sign in signs]


def delta_of(losses, epsilon):
    return losses.deltas(np.array([epsilon]))[0]


def line(z, rows, points):
    return np.linspace(-rows - 12 * z, rows + 12 * z, points)


def exact_delta(name, epsilon, rate, z, rows):
    x = line(z, rows, 40_001 if rows < 100 else 8_001)
    log_p, log_q = log_pair(name, x, rate, z, rows)
    return integrate.simpson(np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0), x=x)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("rate, z, rows", CASES)
def test_one_update_by_integration(name, rate, z, rows):
    """Exact where the grid has a point; between two of them on the chord, which lies above."""
    found = losses_of(PAIRS[name](rate, z, rows), INTERVAL)
    for points in (0, 77):
        ends = [exact_delta(name, n * INTERVAL, rate, z, rows) for n in (points, points + 1)]
        assert delta_of(found, points * INTERVAL) == pytest.approx(ends[0], 1e-5, 1e-11)
        between = (points + 0.5) * INTERVAL
        share = math.expm1(INTERVAL / 2) / math.expm1(INTERVAL)
        chord = ends[0] + share * (ends[1] - ends[0])
        assert delta_of(found, between) == pytest.approx(chord, 1e-5, 1e-11)
        assert delta_of(found, between) >= exact_delta(name, between, rate, z, rows) - 1e-11


def integrated(name, rate, z, rows, updates):
    """Function from delta to the exact epsilon of so many updates.

    delta of T updates is the mean, over the loss of the last of them, of that of T - 1.
    """
    x = line(z, rows, 1_001)
    epsilons = 0.05 * np.sinh(np.linspace(-6.8, 6.8, 2_401))  # dense where losses are small
    log_p, log_q = log_pair(name, x, rate, z, rows)
    left = epsilons[:, None] - (log_p - log_q)
    deltas = -np.expm1(np.minimum(left, 0))
    for _ in range(updates - 1):
        known = interpolate.CubicSpline(epsilons, integrate.simpson(np.exp(log_p) * deltas, x=x))
        inside = np.abs(left) < 22
        deltas = np.where(left < 0, -np.expm1(np.minimum(left, 0)), 0.0)
        deltas[inside] = known(left[inside])
    log_deltas = np.log(np.maximum(integrate.simpson(np.exp(log_p) * deltas, x=x), 1e-12))
    return lambda delta: np.interp(-math.log(delta), -log_deltas, epsilons)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("rate, z, rows", [(0.05, 0.8, 3)])
def test_composition_by_repeated_integration(name, rate, z, rows):
    exact = integrated(name, rate, z, rows, updates=4)
    found = composed_losses([(PAIRS[name](rate, z, rows), 4)], 1e-3)
    for delta in (1e-2, 1e-3, 1e-5):
        assert 0.997 * delta <= delta_of(found, exact(delta)) <= 1.01 * delta


def test_losses_stay_finite_where_ratios_overflow():
    for make in PAIRS.values():
        found = composed_losses([(make(0.3, 0.05, 2), 1)], 0.1)
        deltas = found.deltas(np.array([0.0, 1.0, 80.0, 350.0, 700.0]))
        assert np.all(np.isfinite(deltas)) and np.all(np.diff(deltas) <= 0)
        assert 0 < deltas[-1] < deltas[0] + 1e-9 < 1


def test_components_left_out_count_as_exposed():
    """Of 300 rows nearly none of the numbers above 40 occurs; the whole mixture is no worse."""
    rate, z, rows = 0.02, 3.0, 200
    pair = removed(rate, z, rows)
    assert len(pair.above) < 60 and 0 < pair.exposed < 1e-23
    found = losses_of(pair, INTERVAL)
    assert found.infinite >= pair.exposed
    for points in (0, 256, 2048):
        exact = exact_delta("removed", points * INTERVAL, rate, z, rows)
        assert delta_of(found, points * INTERVAL) == pytest.approx(exact, 1e-3, 1e-12)


def of_subsets(x, y, z, rate, gradients):
    """The density in the plane of a sum of those of some gradients that are drawn."""
    total = 0
    for drawn in itertools.product((0, 1), repeat=len(gradients)):
        centre = np.array(drawn) @ gradients
        weight = rate ** sum(drawn) * (1 - rate) ** (len(drawn) - sum(drawn))
        square = (x - centre[0]) ** 2 + (y - centre[1]) ** 2
        total = total + weight * np.exp(-square / (2 * z**2)) / (2 * np.pi * z**2)
    return total


def in_the_disc(rng, rows):
    radius, angle = rng.uniform(0, 1, (rows, 1)) ** 0.3, rng.uniform(0, 2 * np.pi, rows)
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_dominating_pair_bounds_other_gradients(rows):
    """Rows of one person with gradients of norm <= 1 in the plane, against the dominating pair."""
    rng = np.random.default_rng(rows)
    for _ in range(3):
        z, rate = rng.uniform(0.5, 3), rng.uniform(0.02, 1)
        edge = np.linspace(-rows - 8 * z, rows + 8 * z, 401)
        x, y = np.meshgrid(edge, edge)
        mine, other = in_the_disc(rng, rows), in_the_disc(rng, rows)
        near, far, none = (of_subsets(x, y, z, rate, g) for g in (mine, other, 0 * mine))
        for name, p, q in (
            ("removed", near, none),
            ("added", none, near),
            ("replaced", near, far),
        ):
            found = losses_of(PAIRS[name](rate, z, rows), INTERVAL)
            for epsilon in (0.0, 0.25, 1.0, 2.0):
                delta = np.maximum(p - math.exp(epsilon) * q, 0).sum() * (edge[1] - edge[0]) ** 2
                assert delta <= delta_of(found, epsilon) + 1e-6, (name, epsilon)
