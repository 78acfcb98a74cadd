"""Privacy profiles: delta as a function of epsilon, and what that allows an attacker.

A profile is a function from epsilons, an array [n] of numbers >= 0, to deltas [n], never too small.
It holds in both directions, with and without what is protected. So at any epsilon, an attack that
says "it was used" with probability a where it was not (its false-positive rate) says so with
probability b (its true-positive rate) where it was, and

    b <= exp(epsilon) a + delta    and    1 - a <= exp(epsilon) (1 - b) + delta.
"""

import functools

import numpy as np
from scipy import special

from tfdpnorm import arguments
from tfdpnorm.privacy.accountants import accountant_of, rdp_profile
from tfdpnorm.privacy.mechanisms import Mechanism
from tfdpnorm.privacy.mixtures import HOPELESS, LARGEST_EXPONENT, losses_profile, pld_interval

_ROUNDS = 4
# For the bounds on attacks: any will do, more of them are tighter.
_EPSILONS = np.concatenate([np.linspace(0, 2, 201), np.geomspace(2.01, 60, 600)])
# False-positive rates from 0.1 % to 99.9 %, between which attacks are compared.
_RATES = special.ndtr(np.linspace(special.ndtri(1e-3), -special.ndtri(1e-3), 3001))


@functools.lru_cache(maxsize=32)
def composed_profile(parts, delta, rows=1):
    """The profile of Gaussian mechanisms, for a person who owns up to `rows` examples.

    It is the smaller one, at each epsilon, of two that hold: that of the privacy losses, where they
    can be computed, and that of Renyi divergences for one example, by the lemma for groups.

    Args:
        parts: Tuple of `Mechanism`s, or of their fields.
        delta: In (0, 1): about where the profile has to be precise.
        rows: Of the person, >= 1.

    Returns:
        A function, as in the head of this module.
    """
    parts = tuple(Mechanism(*part) for part in parts if part[2])
    if not parts:
        return of_nothing
    known = [of_group(rdp_profile(parts), rows)]
    epsilon = rows * accountant_of("rdp").epsilon(parts, delta)
    if 0 < epsilon < HOPELESS:
        interval = pld_interval(epsilon, sum(part.count for part in parts))
        try:
            known.append(losses_profile(parts, interval, rows))
        except (ValueError, ArithmeticError, MemoryError):
            pass  # As for `epsilon_of`: there are settings whose losses cannot be computed.
    return smallest(known)


def of_nothing(epsilons):
    """The profile where nothing was released."""
    return np.zeros(len(epsilons))


def of_group(profile, size):
    """The profile for `size` examples at once, where `profile` is for one.

    Along a chain of data sets, each with one example more, probabilities grow by exp(epsilon) and
    then delta, `size` times: (size epsilon, delta (1 + exp(epsilon) + ... )) (Vadhan 2017,
    Lemma 2.2). As every epsilon is allowed, that is the best choice of one for each result.
    """
    if size == 1:
        return profile

    def of_all(epsilons):
        each = np.maximum(np.asarray(epsilons, float), 1e-9) / size
        with np.errstate(over="ignore"):
            terms = np.exp(np.multiply.outer(np.arange(size), each)).sum(axis=0)
        return np.minimum(profile(each) * terms, 1.0)

    return of_all


def smallest(profiles):
    """The profile that is the smallest of several, all of which hold."""
    return lambda epsilons: np.min([profile(epsilons) for profile in profiles], axis=0)


def plus(profile, added):
    """The profile to whose deltas `added` is added."""
    return lambda epsilons: np.minimum(profile(epsilons) + added, 1.0)


def true_positive_rate(profile, false_positive_rate):
    """The highest true-positive rate of an attack with that false-positive rate in (0, 1)."""
    rate = arguments.open_unit("false_positive_rate", false_positive_rate)
    return float(_true_positive_rates(profile, np.array([rate]))[0])


def loss_at(profile, probability):
    """A number that the privacy loss exceeds with at most that probability, close to the least.

    The loss is the logarithm of the factor by which a result changes the odds. A profile bounds it,
    but not by delta at epsilon: at each epsilon, delta is the mean of 1 - exp(epsilon - loss) where
    that is positive, so at least 1 - exp(epsilon - t) times the probability of a loss above t. The
    result is infinite if the profile bounds no loss so.
    """
    probability = arguments.open_unit("probability", probability)
    asked = np.append(0.0, np.geomspace(1e-4, LARGEST_EXPONENT, 100))
    for _ in range(_ROUNDS):
        shares = np.minimum(profile(asked) / probability, 1.0)
        with np.errstate(divide="ignore"):
            losses = asked - np.log1p(-shares)
        best = int(np.argmin(losses))
        around = np.clip([best - 1, best + 1], 0, len(asked) - 1)
        asked = np.union1d(np.linspace(*asked[around], 25), asked[best])
    return float(losses.min())


def gaussian_mu(profile):
    """A mu such that no attack does better than on the Gaussian mechanism with that mu.

    Of attacks with false-positive rates from 0.1 % to 99.9 %: with rates nearer to 0, delta allows
    what no mu does. The Gaussian mechanism is the question whether a number was drawn from N(0, 1)
    or from N(mu, 1) (Dong, Roth and Su 2022, "Gaussian differential privacy").

    Returns:
        mu >= 0, a float, never too small; perhaps infinite.
    """
    best = _true_positive_rates(profile, _RATES)
    # Rates between two of the grid: those of the right one, at the left one.
    return max(0.0, float((special.ndtri(best[1:]) - special.ndtri(_RATES[:-1])).max()))


def _true_positive_rates(profile, rates):
    deltas = profile(_EPSILONS)
    with_it = np.multiply.outer(rates, np.exp(_EPSILONS)) + deltas
    without = 1 - np.exp(-_EPSILONS) * np.maximum(np.subtract.outer(1 - rates, deltas), 0.0)
    return np.minimum(np.minimum(with_it, without).min(axis=1), 1.0)
