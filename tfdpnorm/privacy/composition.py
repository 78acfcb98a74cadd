"""Epsilon of Gaussian mechanisms composed, quick where the same are asked for again and again."""

import functools
import math

import dp_accounting

from tfdpnorm.privacy import profiles
from tfdpnorm.privacy.accountants import (
    dp_sgd_event,
    epsilon_of,
    pld_interval,
    rdp_of_update,
    rdp_to_epsilon,
)
from tfdpnorm.privacy.epsilon_curve import EpsilonCurve
from tfdpnorm.privacy.mixtures import added, composed_losses, removed


def run_epsilon(plan, updates, queries):
    """The epsilon that the formula gives for a run, whatever is known against it.

    Args:
        plan: The `PrivacyPlan` of the run; its accountant and delta are used.
        updates: Number of updates, an int.
        queries: What else was released about the training examples, as in `composed_epsilon`.

    Returns:
        Epsilon >= 0, a float. By "pld", before the last update, that of a slightly later one.
    """
    queries = [*queries, *plan.earlier_mechanisms]
    if not queries:
        return plan.curve.epsilon_after(updates)
    if plan.noise_multiplier == 0 and updates:
        return math.inf
    if plan.accountant == "pld":
        curve = _pld_curve(plan.sampling_rate, plan.noise_multiplier, plan.steps, plan.delta)
        updates = curve.reported_at(updates)
    parts = [(plan.sampling_rate, plan.noise_multiplier, updates), *queries]
    return composed_epsilon(parts, plan.delta, plan.accountant)


def composed_epsilon(parts, delta, accountant):
    """Epsilon of Gaussian mechanisms.

    Args:
        parts: Iterable of (sampling rate, noise multiplier, count).
        delta: 0 < delta < 1.
        accountant: "rdp" or "pld".

    Returns:
        Epsilon >= 0, a float.
    """
    parts = tuple(part for part in parts if part[2])
    if not parts:
        return 0.0
    if accountant == "pld":
        return _pld_epsilon(parts, delta)
    return rdp_to_epsilon(composed_rdp(parts), delta)


def composed_rdp(parts):
    """Renyi divergences of Gaussian mechanisms, each (sampling rate, noise multiplier, count)."""
    return sum(count * rdp_of_update(rate, noise) for rate, noise, count in parts)


# Epsilons whose privacy losses are not worth computing: exp(700) is the largest number.
_HOPELESS = 3_000


@functools.lru_cache(maxsize=32)
def composed_profile(parts, delta, rows=1):
    """The profile of Gaussian mechanisms, for a person who owns up to `rows` examples.

    It is the smaller one, at each epsilon, of two that hold: that of the privacy losses, where they
    can be computed, and that of Renyi divergences for one example, by the lemma for groups.

    Args:
        parts: Tuple of (sampling rate, noise multiplier, count).
        delta: In (0, 1): about where the profile has to be precise.
        rows: Of the person, >= 1.

    Returns:
        A function, as in `tfdpnorm.privacy.profiles`.
    """
    parts = tuple(part for part in parts if part[2])
    if not parts:
        return profiles.of_nothing
    rdp = composed_rdp(parts)
    known = [profiles.of_group(profiles.of_rdp(rdp), rows)]
    epsilon = rows * rdp_to_epsilon(rdp, delta)
    if 0 < epsilon < _HOPELESS:
        try:
            known.append(_profile_of_losses(parts, epsilon, rows))
        except (ValueError, ArithmeticError, MemoryError):
            pass  # As for `epsilon_of`: there are settings whose losses cannot be computed.
    return profiles.smallest(known)


def _profile_of_losses(parts, epsilon, rows):
    updates = sum(count for _, _, count in parts)
    interval = pld_interval(epsilon, updates)
    directions = [
        composed_losses([(pair(q, z, rows), count) for q, z, count in parts], interval)
        for pair in (removed, added)
    ]
    return profiles.of_losses(directions, updates)


@functools.lru_cache(maxsize=64)
def _pld_epsilon(parts, delta):
    event = dp_accounting.ComposedDpEvent([dp_sgd_event(*part) for part in parts])
    return epsilon_of(event, delta, "pld")


@functools.lru_cache(maxsize=16)
def _pld_curve(rate, noise_multiplier, steps, delta):
    """The `EpsilonCurve` of a plan by "pld", whose grid says where it is composed."""
    return EpsilonCurve(rate, noise_multiplier, steps, delta, "pld")
