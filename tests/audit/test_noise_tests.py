"""Tests of released noise: honest noise passes as often as it should, each fault is seen."""

import numpy as np
from scipy import stats

from tests.attacks.noise_tests import lot_size_p_value, noise_tests
from tests.each import each


def noise(seed=0, updates=4, count=2000, z=1.3):
    return np.random.default_rng(seed).normal(scale=z, size=(updates, count))


def test_honest_noise_passes_as_often_as_it_should():
    smallest = np.array([noise_tests(noise(seed, count=300), 1.3).smallest for seed in range(200)])
    for level in (0.05, 0.2):
        alarms = (smallest < level).sum()
        assert stats.binom.sf(alarms - 1, 200, level) > 1e-3
    assert (smallest < 0.5).any()


@each(
    "fault, part",
    [
        (lambda n: n / 1.2, "size"),
        (lambda n: np.sign(n) * 1.3, "shape"),
        (lambda n: np.repeat(n[:2], 2, axis=0), "repeated"),
        (lambda n: np.concatenate([n[:3], -n[:1]]), "repeated"),
    ],
)
def test_each_defect_of_the_noise_is_found(fault, part):
    found = noise_tests(fault(noise()), 1.3)
    assert getattr(found, part) < 1e-6 and found.smallest < 1e-5


def test_a_single_update_repeats_nothing():
    assert noise_tests(noise(updates=1), 1.3).repeated == 1.0


def test_lot_sizes():
    sizes = np.random.default_rng(1).binomial(1000, 0.3, 5)
    assert lot_size_p_value(sizes, 1000, 0.3) > 0.01
    for rate in (0.15, 0.6):
        assert lot_size_p_value(sizes, 1000, rate) < 1e-10
