"""Epsilon of Gaussian mechanisms composed, quick where the same are asked for again and again."""

import functools
import math

import dp_accounting

from tfdpnorm.privacy.accountants import (
    dp_sgd_event,
    epsilon_of,
    rdp_of_update,
    rdp_to_epsilon,
)
from tfdpnorm.privacy.epsilon_curve import EpsilonCurve


def run_epsilon(plan, single, shared, queries):
    """The epsilon that the formula gives for a run, whatever is known against it.

    Args:
        plan: The `PrivacyPlan` of the run; its accountant and delta are used.
        single: Number of updates on lots of their own, an int.
        shared: Pairs (m, lots): from each of so many lots, m updates were drawn. They cost as much
            as one update with noise multiplier z / sqrt(m) (see `tfdpnorm.privacy.lot_uses`).
        queries: What else was released about the training examples, as in `composed_epsilon`.

    Returns:
        Epsilon >= 0, a float. By "pld", before the last update, that of a slightly later one; but
        not more than what was planned, where the run has not spent more.
    """
    if plan.accountant != "pld" or not (shared or queries):
        return exact_epsilon(plan, single, shared, queries)
    curve = _pld_curve(plan.sampling_rate, plan.noise_multiplier, plan.steps, plan.delta)
    later = exact_epsilon(plan, curve.reported_at(single), shared, queries)
    if later <= exact_epsilon(plan, plan.steps, (), queries):
        return later
    return exact_epsilon(plan, single, shared, queries)


def exact_epsilon(plan, single, shared, queries):
    """As `run_epsilon`; by "pld" that of just so many updates, where lots were used twice.

    It may take a second and more by "pld".
    """
    if not shared and not queries:
        return plan.claimed_epsilon_after(single)
    rate, noise = plan.sampling_rate, plan.noise_multiplier
    if noise == 0 and (single or shared):
        return math.inf
    updates = [(rate, noise, single)]
    updates += [(rate, noise / math.sqrt(m), lots) for m, lots in shared]
    return composed_epsilon([*updates, *queries], plan.delta, plan.accountant)


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


@functools.lru_cache(maxsize=64)
def _pld_epsilon(parts, delta):
    event = dp_accounting.ComposedDpEvent([dp_sgd_event(*part) for part in parts])
    return epsilon_of(event, delta, "pld")


@functools.lru_cache(maxsize=16)
def _pld_curve(rate, noise_multiplier, steps, delta):
    """The `EpsilonCurve` of a plan by "pld", whose grid says where it is composed."""
    return EpsilonCurve(rate, noise_multiplier, steps, delta, "pld")
