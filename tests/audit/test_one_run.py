"""Bounds by trade-off curves: they hold, they are sharper, and nothing is assumed silently."""

import numpy as np
import pytest
from scipy import stats

from tests.audit.approximate_family import ApproximateFamily
from tests.each import each
from tfdpnorm.audit import one_run
from tfdpnorm.audit.gradient_canaries import count_correct
from tfdpnorm.audit.lower_bounds import one_run_epsilon_lower_bound
from tfdpnorm.audit.trade_offs import DPSGDFamily, Gaussian

DELTA = 1e-5


def simulated(mu, canaries, rng):
    """Scores and coins of m canaries in a Gaussian mechanism, each with a coordinate of its own."""
    included = rng.integers(2, size=canaries).astype(bool)
    return mu * included + rng.normal(size=canaries) - mu / 2, included


def never_above_more_often_than_it_may(above, seeds, confidence=0.95):
    """Whether so many failures are likely for a bound that holds with this confidence."""
    return stats.binom.sf(above - 1, seeds, 1 - confidence) > 1e-3


def test_the_gaussian_mechanism_is_seldom_refuted():
    """200 runs: the bound is above the truth in 5 % of them at most, for every kind of bound."""
    noise, guesses = 1.0, 60
    family = DPSGDFamily(1.0, 1, DELTA)
    rng = np.random.default_rng(0)
    of_guesses, of_all = [], []
    for _ in range(200):
        scores, included = simulated(1 / noise, 300, rng)
        of_guesses.append(count_correct(scores, included, guesses))
        of_all.append(int(((scores > 0) == included).sum()))
    truth = family.curve(1 / noise)
    refuted = [
        not one_run.curve_allows(truth, 300, guesses, v, probability=0.05) for v in of_guesses
    ]
    assert never_above_more_often_than_it_may(sum(refuted), 200)
    level = stats.binom.isf(0.05, 300, one_run.best_accuracy(truth))
    refuted_by_all = sum(v > level for v in of_all)
    assert never_above_more_often_than_it_may(refuted_by_all, 200)
    assert refuted_by_all > 0  # it has no room to spare


@each("correct", [38, 50])
def test_by_epsilon_and_delta_it_is_near_the_bound_of_steinke(correct):
    """Two proofs, one statement: near each other, from the same guesses."""
    old = one_run_epsilon_lower_bound(200, 50, correct, delta=DELTA)
    new = one_run.f_dp_epsilon_lower_bound(ApproximateFamily(DELTA), 200, 50, correct)
    assert new == pytest.approx(old, rel=0.15, abs=0.02)


def test_publishing_with_probability_delta_is_no_violation():
    """(0, delta)-DP: with probability delta per canary its coin is public; the attacker abstains.

    All his guesses are correct then, and their number says nothing against delta.
    """
    delta, canaries = 0.2, 100
    rng = np.random.default_rng(2)
    curve = ApproximateFamily(delta).curve(0.0)
    refuted = 0
    for _ in range(200):
        known = rng.binomial(canaries, delta)
        refuted += not one_run.curve_allows(
            curve, canaries, max(known, 1), max(known, 1), probability=0.05
        )
    assert never_above_more_often_than_it_may(refuted, 200)
    assert not one_run.curve_allows(curve, canaries, 100, 100, probability=0.3)


@each("curve", [Gaussian(0.7), ApproximateFamily(0.05).curve(0.8)])
def test_one_coin_is_guessed_as_well_as_the_best_test_does(curve):
    """Where nothing is lost in the proof: neither less nor more is allowed."""
    best = one_run.best_accuracy(curve)
    assert one_run.curve_allows(curve, 1, 1, 1, probability=best - 1e-6)
    assert not one_run.curve_allows(curve, 1, 1, 1, probability=best + 1e-6)


def test_shared_luck_is_allowed_for():
    """All coins or nothing: the mechanism tells all coins at once with probability delta.

    That is (0, delta)-DP too. The bound for independent guesses does not hold for it.
    """
    delta, canaries = 0.06, 100
    curve = ApproximateFamily(delta).curve(0.0)
    assert one_run.curve_allows(curve, canaries, canaries, canaries, probability=delta)
    family = ApproximateFamily(delta)
    assert one_run.f_dp_epsilon_lower_bound(family, canaries, canaries, canaries) == 0.0
    assert one_run.independent_epsilon_lower_bound(family, canaries, canaries) > 3


def test_more_correct_guesses_never_lower_a_bound():
    family = DPSGDFamily(1.0, 1, DELTA)
    for bound in (
        lambda v: one_run.f_dp_epsilon_lower_bound(family, 60, 40, v),
        lambda v: one_run.independent_epsilon_lower_bound(family, 40, v),
    ):
        bounds = [bound(v) for v in (0, 20, 28, 34, 40)]
        assert bounds == sorted(bounds) and bounds[1] == 0.0 < bounds[-1]


@each("counts, part", [((10, 11, 5), "guesses"), ((10, 5, 6), "correct"), ((10, 5, -1), "correct")])
def test_invalid_arguments_are_rejected(counts, part):
    with pytest.raises(ValueError, match=part):
        one_run.f_dp_epsilon_lower_bound(ApproximateFamily(0.0), *counts)
    with pytest.raises(ValueError, match="confidence"):
        one_run.f_dp_epsilon_lower_bound(ApproximateFamily(0.0), 10, 5, 5, confidence=1.0)
