"""Lower bounds against mechanisms whose epsilon is known: they hold, and they are not empty."""

import numpy as np
import pytest
from scipy import optimize, stats

from tests.each import each
from tfdpnorm.audit import lower_bounds as lb

DELTA = 1e-5


def analytic_gaussian_epsilon(noise_multiplier, delta=DELTA):
    """The exact epsilon of the Gaussian mechanism (Balle and Wang 2018, Theorem 8)."""
    a = 1 / (2 * noise_multiplier)

    def excess(epsilon):
        b = epsilon * noise_multiplier
        return stats.norm.cdf(a - b) - np.exp(epsilon) * stats.norm.cdf(-a - b) - delta

    return optimize.brentq(excess, 0.0, 50.0)


def test_the_gaussian_mechanism_has_a_bound_that_holds():
    noise_multiplier, share = 3.73, 0.2
    true = analytic_gaussian_epsilon(noise_multiplier)
    rng = np.random.default_rng(1)
    bounds = [
        lb.epsilon_from_samples(
            rng.normal(1, noise_multiplier, 10_000),
            rng.normal(0, noise_multiplier, 10_000),
            delta=DELTA,
        )
        for _ in range(120)
    ]
    assert np.mean(np.array(bounds) <= true) >= 0.95
    assert np.median(bounds) > share * true


def test_joint_coverage_of_randomised_response():
    """A test that is wrong with probability 1 / (1 + e^eps) on both sides has that very epsilon."""
    rng = np.random.default_rng(3)
    wrong = 1 / (1 + np.e)
    errors = rng.binomial(2000, wrong, (3000, 2))
    bounds = lb.epsilon_lower_bound(errors[:, 0], 2000, errors[:, 1], 2000, delta=0.0)
    assert 0.95 <= (bounds <= 1.0).mean()
    assert np.median(bounds) > 0.85


def test_the_choice_of_a_threshold_costs_no_confidence():
    """On the samples that it was chosen on, 14 % of the bounds would be above the truth."""
    rng = np.random.default_rng(4)
    bounds = [
        lb.epsilon_from_samples(rng.normal(size=2_000), rng.normal(size=2_000), delta=0.0)
        for _ in range(300)
    ]
    assert np.mean(np.array(bounds) == 0.0) >= 0.95


@each("sign", [1, -1])
def test_a_perfect_test_reaches_the_ceiling_in_either_direction(sign):
    rng = np.random.default_rng(5)
    bound = lb.epsilon_from_samples(
        sign * (100 + rng.normal(size=2000)), rng.normal(size=2000), delta=DELTA
    )
    rate = 1 - 0.025 ** (1 / 1000)
    assert bound == pytest.approx(np.log((1 - DELTA - rate) / rate), rel=1e-9)
    most = lb.epsilon_lower_bound(0, 100_000, 0, 100_000, delta=DELTA)
    assert most == pytest.approx(10.2, abs=0.02)


# --- one run ---


@each("epsilon", [0.0, 1.0])
def test_randomised_response_is_never_refuted_by_one_run(epsilon):
    rng = np.random.default_rng(7)
    correct = rng.binomial(500, 1 / (1 + np.exp(-epsilon)), 400)
    of = {v: lb.one_run_epsilon_lower_bound(500, 500, v, delta=0.0) for v in set(correct)}
    bounds = np.array([of[v] for v in correct])
    assert (bounds <= epsilon).mean() >= 0.94
    assert np.median(bounds) > epsilon - 0.45


def test_the_p_value_without_delta_is_the_binomial_tail():
    value = lb.one_run_p_value(300, 200, 150, epsilon=1.0, delta=0.0)
    assert value == pytest.approx(stats.binom.sf(149, 200, np.e / (1 + np.e)), rel=1e-9)


def test_the_share_of_delta_by_hand():
    """r = v = 2 of m = 3: max(P[W = 1], (P[W = 1] + P[W = 0]) / 2) * 2 m delta."""
    p = np.e / (1 + np.e)
    one, none = 2 * p * (1 - p), (1 - p) ** 2
    expected = p**2 + 2 * 3 * 0.01 * max(one, (one + none) / 2)
    assert lb.one_run_p_value(3, 2, 2, epsilon=1.0, delta=0.01) == pytest.approx(expected)


def test_publishing_with_probability_delta_is_no_violation():
    """It is (0, delta)-DP; a bound that forgot delta would refute it."""
    delta, canaries = 0.2, 200
    rng = np.random.default_rng(8)
    correct = rng.binomial(canaries, delta + (1 - delta) / 2, 200)
    bounds = [lb.one_run_epsilon_lower_bound(canaries, canaries, v, delta=delta) for v in correct]
    assert np.mean(np.array(bounds) == 0.0) >= 0.95
    assert lb.one_run_epsilon_lower_bound(canaries, canaries, 120, delta=0.0) > 0


@each(
    "call, part",
    [
        (lambda: lb.epsilon_lower_bound(11, 10, 0, 10, delta=0.1), "false_positives"),
        (lambda: lb.epsilon_lower_bound(0, 10, -1, 10, delta=0.1), "false_negatives"),
        (lambda: lb.epsilon_lower_bound(0, 10, 0, 10, delta=1.0), "delta"),
        (lambda: lb.epsilon_lower_bound(0, 10, 0, 10, delta=0.1, confidence=1), "confidence"),
        (lambda: lb.epsilon_from_samples([1.0], [1.0, 2.0], delta=0.1), "at least 2"),
        (lambda: lb.epsilon_from_samples([1.0, np.nan], [1, 2], delta=0.1), "1 of them"),
        (lambda: lb.one_run_p_value(10, 11, 5, epsilon=1, delta=0), "guesses"),
        (lambda: lb.one_run_epsilon_lower_bound(10, 5, 6, delta=0), "correct"),
    ],
)
def test_invalid_arguments_are_rejected(call, part):
    with pytest.raises(ValueError, match=part):
        call()
