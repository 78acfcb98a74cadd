"""What a limit on batches costs: all draws of small cases, enumerated, against the accountants."""

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate, stats

from tests.each import each
from tfdpnorm.data import poisson_batches
from tfdpnorm.data.poisson import insecure_bits, truncated
from tfdpnorm.privacy.accountants import rdp_profile
from tfdpnorm.privacy.mechanisms import Mechanism
from tfdpnorm.privacy.mixtures import losses_profile
from tfdpnorm.privacy.slots import Slots

EPSILONS = np.array([0.0, 0.05, 0.3, 1.0, 2.5, 9.0])


def placements(count, q, most):
    """All results of a draw of `count` examples, a dict: the example of each slot to probability.

    Coins, then of too many a subset, then slots: each as likely as any other.
    """
    found = {}
    for drawn in itertools.product([False, True], repeat=count):
        members = [number for number in range(count) if drawn[number]]
        chance = math.prod(q if each else 1 - q for each in drawn)
        if len(members) <= most:
            rest = [None] * (most - len(members))
            orders = set(itertools.permutations([*members, *rest]))
        else:
            orders = set(itertools.permutations(members, most))
        for order in orders:
            found[order] = found.get(order, 0.0) + chance / len(orders)
    return found


def divergences(p, q, z):
    """Hockey-stick divergences of mixtures of N(mean, z^2), by integration."""
    x = np.linspace(-8 - 12 * z, 8 + 12 * z, 4_001)
    densities = []
    for mixture in (p, q):
        means, weights = np.array(list(mixture)), np.array(list(mixture.values()))
        densities.append(stats.norm.pdf(x[:, None], means, z) @ weights)
    above = np.maximum(densities[0] - np.exp(EPSILONS)[:, None] * densities[1], 0.0)
    return integrate.trapezoid(above, x, axis=1)


def sums(count, q, most, terms):
    """The distribution of the sum of `terms` [example, slot] of a draw."""
    found = {}
    for order, chance in placements(count, q, most).items():
        total = sum(terms[one, slot] for slot, one in enumerate(order) if one is not None)
        found[total] = found.get(total, 0.0) + chance
    return found


def terms_of(kind, others, rows, most):
    """Terms within [-1, 1]: the last `rows` examples are those of the person."""
    if kind == "opposite":  # the person's replaces one of the other sign
        return np.concatenate([-np.ones((others, most)), np.ones((rows, most))])
    if kind == "by slot":
        return np.concatenate(
            [np.resize([1.0, -1.0], (others, most)), np.resize([-1.0, 1.0], (rows, most))]
        )
    return np.round(np.random.default_rng(3).uniform(-1, 1, (others + rows, most)), 2)


@each("kind", ["opposite", "by slot", "random"])
@each("others, q, most", [(4, 0.5, 2), (5, 0.3, 3), (3, 0.8, 3), (5, 0.6, 1), (1, 0.7, 2)])
@each("z", [0.6, 1.5])
@each("rows", [1, 2])
def test_no_small_case_exceeds_what_is_stated(kind, others, q, most, z, rows):
    mechanism = Mechanism(q, z, 1, most, others)
    terms = terms_of(kind, others, rows, most)
    with_it, without = sums(others + rows, q, most, terms), sums(others, q, most, terms)
    stated = losses_profile([mechanism], 1e-3, rows)(EPSILONS)
    by_rdp = rdp_profile([mechanism])(EPSILONS)
    for pair in ((with_it, without), (without, with_it)):
        exact = divergences(*pair, z)
        assert (exact <= stated + 2e-6).all()
        assert rows > 1 or (exact <= by_rdp + 2e-6).all()


def test_there_is_a_price():
    """One of two drawn takes part: what is stated without the limit does not hold."""
    z, q, terms = 0.6, 0.5, terms_of("opposite", 1, 1, 1)
    exact = divergences(sums(2, q, 1, terms), sums(1, q, 1, terms), z)[4]
    stated = losses_profile([Mechanism(q, z, 1, 1, 1)], 1e-3)(EPSILONS[:5])[4]
    plain = losses_profile([Mechanism(q, z, 1)], 1e-3)(EPSILONS[:5])[4]
    assert plain < 0.9 * exact < exact < stated


def test_overflows_add_up_over_updates_and_phases():
    """Two accountants, two formulas: neither is far below the other."""
    one, other = Mechanism(0.1, 1.5, 30, 20, 100), Mechanism(0.05, 1.0, 10, 14, 100)
    plain = [one[:3], other[:3]]
    stated = losses_profile([one, other], 1e-3)(EPSILONS[:5])
    by_rdp = rdp_profile([one, other])(EPSILONS[:5])
    assert (losses_profile([Mechanism(*x) for x in plain], 1e-3)(EPSILONS[:5]) < stated).all()
    assert (rdp_profile([Mechanism(*x) for x in plain])(EPSILONS[:5]) <= by_rdp).all()
    assert (stated < by_rdp).all()
    certain = sum(each.count * each.overflow() for each in (one, other))
    assert (
        stated < losses_profile([Mechanism(*x) for x in plain], 1e-3)(EPSILONS[:5]) + certain
    ).all()


def test_two_examples_overflow_where_one_place_is_left():
    limited, plain = Mechanism(0.7, 0.6, 1, 2, 1), Mechanism(0.7, 0.6, 1)
    assert limited.overflow() == 0 and limited.overflow(2) == pytest.approx(0.7)
    found, without = (losses_profile([each], 1e-3, 2)(EPSILONS[3:5]) for each in (limited, plain))
    assert (found > 1.1 * without).all()


@each("count, q, most", [(3, 0.6, 2), (4, 0.5, 1)])
def test_draws_have_the_distribution_of_the_lemma(count, q, most):
    data = poisson_batches(np.arange(1.0, count + 1), expected_batch_size=q * count)
    expected, draws = placements(count, q, most), 1_500
    found = dict.fromkeys(expected, 0)
    lots = data.as_dataset(Slots(1, most), insecure_seed=5).take(draws)
    for lot in lots:
        found[tuple(int(value) - 1 if value else None for value in lot.x[0].numpy())] += 1
    chances = np.array([expected[key] for key in found])
    assert stats.chisquare(list(found.values()), draws * chances).pvalue > 1e-3


@each("drawn", [0, 3, 5, 9])
def test_some_of_the_drawn_take_part(drawn):
    rows = np.arange(100, 100 + drawn)
    taken = truncated(rows, 5, insecure_bits(1, 2))
    assert len(taken) == min(drawn, 5) == len(set(taken)) and set(taken) <= set(rows)
    if drawn == 9:
        assert sorted(taken) != list(rows[:5])


def test_batches_have_fixed_shapes():
    """Whatever was drawn: the training step is traced once."""
    data = poisson_batches(np.zeros([40, 2]), expected_batch_size=20)
    lots = data.as_dataset(Slots(3, 8, 22), insecure_seed=1)
    assert lots.element_spec.mask.shape == (3, 8)
    counts = [int(tf.reduce_sum(lot.mask)) for lot in lots.take(200)]
    assert max(counts) == 22 and counts.count(22) > 10
    with pytest.raises(TypeError, match="slots"):
        data.as_dataset(24)
